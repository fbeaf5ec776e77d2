"""`check_analyzer`: the suite that every analyzer passes; `check_audit`: what audits must be able to do in a world.

    check_analyzer(analyze_variation)

    @pytest.mark.parametrize(("name", "check"), analyzer_checks(my_analyzer, my_models))
    def test_my_analyzer(name, check):
        check()

What fails is an `AnalyzerError` (of a world: a `WorldError`) in one line, which names the check and what was found.
"""

from probes.checking.analyzers import CHECKS, analyzer_checks, check_analyzer
from probes.checking.audits import check_audit

__all__ = ["CHECKS", "analyzer_checks", "check_analyzer", "check_audit"]
