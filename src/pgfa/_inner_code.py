"""Code that only compiled code calls: taken into its callers, and nothing more.

Numba prepares every function to be called from Python: it optimises it together with all that it calls, makes machine
code of that and code that takes Python's objects apart. In a sampler functions call each other seven deep, and all but
the outermost would be optimised and translated once for each of their callers, for nothing. What is compiled with
`InnerCompiler` is typed and put down in the compiler's intermediate language only; the outermost function takes it in
and is optimised as a whole. That is two to three times as fast, and the machine code is as good.
"""

from __future__ import annotations

from typing import Any

from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment
from numba.core.typed_passes import NativeLowering


class _InnerLibrary(JITCodeLibrary):
    """Intermediate code for others to link in."""

    def _optimize_final_module(self) -> None:
        """Whoever links it in will do so."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _InnerLowering(NativeLowering):
    """From types to intermediate code, and no further."""

    _name = "pgfa_inner_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        description = lowered.fndesc
        # Callers find the code by an object that could be called if there were a way in from Python.
        name = description.qualname.split(".")[-1]
        entry = _dynfunc.make_function(description.lookup_module(), name, "", 0, lowered.env, (state.library,))
        state.targetctx.insert_user_function(entry, description, [state.library])
        state.reload_init.extend(state.library._reload_init)
        state["cr"] = lowered._replace(cfunc=entry)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _OuterLowering(NativeLowering):
    """All the way, and what functions that were taken in need of Python, to raise exceptions, is put in their reach."""

    _name = "pgfa_outer_lowering"

    def run_pass(self, state: Any) -> bool:
        super().run_pass(state)
        for variable in state.library._final_module.global_variables:
            environment = lookup_environment(variable.name)
            if environment is not None:
                state.library.codegen.set_env(variable.name, environment)
        return True


class _Compiler(CompilerBase):
    """Numba's compiler with another last step."""

    last_step: type[NativeLowering]

    def define_pipelines(self) -> list[Any]:
        standard = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes = standard.passes
        standard.passes = [(self.last_step if step is NativeLowering else step, why) for step, why in passes]
        standard.finalize()
        return [standard]


class InnerCompiler(_Compiler):
    """For code that only compiled code calls."""

    last_step = _InnerLowering


class OuterCompiler(_Compiler):
    """For code that Python calls."""

    last_step = _OuterLowering
