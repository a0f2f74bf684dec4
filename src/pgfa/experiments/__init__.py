"""The paper's experiments, rerun: definitions, chains at equal time, statistics, figures, verdicts and reports.

Nothing else in the package imports from here except the command line.
"""
