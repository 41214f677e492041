"""Each statistical formula cites where it comes from, and has a test against another's code.

The modules below are those that say something of measurements. What computes in them is listed
with the test and with the independent implementation that this test calls: a function of scipy,
statsmodels, numpy or the standard library, or an obvious and slow one written in the test.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

SIMULATED = "range("
"""In place of an implementation: the test counts in simulated data how often a promise is kept."""
FORMULAS = {
    "zenturio.experiment.aggregates": {
        "deviation": ("test_the_deviation_is_that_of_a_sample", "statistics.stdev"),
        "variance": ("test_spreads_are_those_of_scipy", "np.var"),
        "standard_error": ("test_spreads_are_those_of_scipy", "scipy.stats.sem"),
        "interquartile_range": ("test_spreads_are_those_of_scipy", "scipy.stats.iqr"),
        "quantile": ("test_a_quantile_is_that_of_numpy", "np.quantile"),
        "geometric_mean": (
            "test_a_geometric_mean_is_that_of_scipy_and_needs_positive_values",
            "scipy.stats.gmean",
        ),
        "median_interval": (
            "test_the_interval_of_a_median_is_that_of_the_quantile_test",
            "scipy.stats.quantile_test",
        ),
        "outliers": (
            "test_outliers_are_three_robust_deviations_from_the_median",
            "scipy.stats.median_abs_deviation",
        ),
        "serial_correlation": ("test_serial_correlation_is_the_autocorrelation_of_ranks", "acf"),
        "relative_width": (
            "test_the_interval_of_a_median_is_that_of_the_quantile_test",
            "scipy.stats.quantile_test",
        ),
        "depends_on_order": ("test_serial_correlation_is_the_autocorrelation_of_ranks", "acf"),
        "noise_of": ("test_the_pooled_deviation_is_that_of_an_analysis_of_variance", "np.var"),
    },
    "zenturio.experiment.signed_ranks": {
        "signed_rank_level": (
            "test_levels_of_signed_ranks_are_those_of_scipy",
            "scipy.stats.wilcoxon",
        ),
        "signed_rank_quantile": (
            "test_the_interval_holds_what_the_test_of_scipy_does_not_reject",
            "scipy.stats.wilcoxon",
        ),
        "hodges_lehmann": (
            "test_the_interval_holds_what_the_test_of_scipy_does_not_reject",
            "scipy.stats.wilcoxon",
        ),
        "fewest_blocks": (
            "test_so_many_blocks_are_the_fewest_that_the_test_of_scipy_can_reject",
            "scipy.stats.wilcoxon",
        ),
        "BlockPlan": (
            "test_looking_five_times_says_different_of_equal_programs_in_at_most_5_percent",
            SIMULATED,
        ),
        "rank_sum_chance": (
            "test_the_rank_sum_test_is_that_of_scipy",
            "scipy.stats.mannwhitneyu",
        ),
        "expected_half_width": ("test_the_width_of_an_interval_is_foretold", SIMULATED),
    },
    "zenturio.query.statistics": {
        "half_width": ("test_the_interval_of_the_mean_is_that_of_scipy", "scipy.stats.t.interval"),
        "mean_interval": (
            "test_the_interval_of_the_mean_is_that_of_scipy",
            "scipy.stats.t.interval",
        ),
        "student": ("test_quantiles_of_students_t_are_those_of_scipy", "scipy.stats.t.ppf"),
        "_student_below": ("test_quantiles_of_students_t_are_those_of_scipy", "scipy.stats.t.ppf"),
        "fisher": ("test_fishers_tail_is_that_of_scipy", "stats.f.sf"),
        "_beta": ("test_the_incomplete_beta_function_is_that_of_scipy", "scipy.special.betainc"),
        "change_points": (
            "test_of_steps_of_5_percent_92_percent_are_found_within_a_commit",
            SIMULATED,
        ),
        "noise_of": (
            "test_the_noise_of_one_value_is_that_of_differences",
            "scipy.stats.median_abs_deviation",
        ),
        "pelt": ("test_segments_are_those_of_dynamic_programming", "exact"),
    },
    "zenturio.query.aggregates": {
        "_deviation": ("test_deviations_of_parts_are_that_of_the_whole", "scipy.stats.tstd"),
    },
    "zenturio.query.fit_certainty": {
        "chance_of_constant": (
            "test_the_chance_of_a_constant_is_that_of_its_permutations",
            "np.polyfit",
        ),
        "prediction_interval": ("test_a_band_is_that_of_refits_without_each_point", "np.polyfit"),
    },
    "zenturio.query.regression": {
        "_likelier_noise": (
            "test_the_likelier_noise_is_that_of_independent_contrasts",
            "scipy.linalg.helmert",
        ),
        "_Try.price": (
            "test_a_shape_is_judged_by_its_errors_at_points_that_were_left_out",
            "resid_press",
        ),
        "_try": (
            "test_a_shape_is_judged_by_its_errors_at_points_that_were_left_out",
            "resid_press",
        ),
        "_intervals": ("test_intervals_of_coefficients_are_those_of_weighted_least_squares", "WLS"),
    },
    "zenturio.query.scaling": {
        "_amdahl": (
            "test_coefficients_and_intervals_are_those_of_scipy",
            "scipy.optimize.curve_fit",
        ),
        "_gustafson": (
            "test_coefficients_and_intervals_are_those_of_scipy",
            "scipy.optimize.curve_fit",
        ),
        "_universal": (
            "test_coefficients_and_intervals_are_those_of_scipy",
            "scipy.optimize.curve_fit",
        ),
        "fitted_models": (
            "test_coefficients_and_intervals_are_those_of_scipy",
            "scipy.optimize.curve_fit",
        ),
        "_turning_point": (
            "test_gunthers_speedup_is_greatest_where_it_says",
            "scipy.optimize.minimize_scalar",
        ),
        "serial_fraction": ("test_a_serial_fraction_is_that_of_karp_and_flatt", "0.0256410256"),
        "welch_half_width": ("test_welchs_interval_is_that_of_unequal_variances", "tconfint_diff"),
        "_schwarz": (
            "test_schwarzs_criterion_differs_by_a_constant_from_that_of_least_squares",
            ".bic",
        ),
    },
    "zenturio.query.importance": {
        "importances": ("test_chance_is_that_of_the_analysis_of_variance", "stats.f_oneway"),
        "_alike": ("test_who_is_told_from_the_best_is_told_by_welchs_test", "stats.ttest_ind"),
    },
    "zenturio.query.sensitivity": {
        "variance_shares": (
            "test_shares_of_variance_are_sobols_indices",
            "scipy.stats.sobol_indices",
        ),
        "elementary_effects": (
            "test_an_elementary_effect_is_described_by_its_changes",
            "DescrStatsW",
        ),
        "_percentiles": (
            "test_percentiles_of_samples_hold_the_middle_95",
            "scipy.stats.norm.interval",
        ),
        "shapley_effects": (
            "test_shapley_effects_of_tied_parameters_are_those_of_their_definition",
            "exact_shapley",
        ),
    },
    "zenturio.query.forest": {
        "_tree_shares": (
            "test_the_shares_of_a_tree_are_those_of_its_values_at_all_points",
            "itertools.product",
        ),
        "_verdicts": (
            "test_parameters_without_effect_are_rarely_said_to_matter",
            SIMULATED,
        ),
    },
    "zenturio.study.paired.bisect_and_history": {
        "Bisection": (
            "test_a_search_is_wrong_in_at_most_5_percent_where_the_change_is_small",
            SIMULATED,
        ),
        "_spread": (
            "test_the_evidence_of_a_bisection_is_students",
            "scipy.stats.median_abs_deviation",
        ),
        "_log_density": ("test_the_evidence_of_a_bisection_is_students", "scipy.stats.t"),
    },
    "zenturio.study.paired.compare_and_gate": {
        "UntilGated": (
            "test_a_gate_fails_in_at_most_5_percent_where_the_loss_is_what_is_allowed",
            SIMULATED,
        ),
    },
}

NO_FORMULAS = {
    "zenturio.experiment.aggregates": {
        "total",
        "mean",
        "mean_ranks",
        "median",
        "quantile_share",
        "outside_median_interval",
        "default_aggregate",
    },
    "zenturio.experiment.signed_ranks": {"decide_in_looks", "is_clear"},
    "zenturio.query.statistics": {"interval_end", "mean", "median", "total", "deviation"},
    "zenturio.query.fit_certainty": set(),
    "zenturio.query.scaling": {"is_maximized", "scaling_curve", "study_scaling"},
}
"""Functions of modules of which each other public function is a formula: what needs no citation,
or puts formulas together."""
YEAR = re.compile(r"\b(18|19|20)\d\d\b|Abramowitz|DLMF")
NAMES = [(module, name) for module, formulas in FORMULAS.items() for name in formulas]


@cache
def definitions(module):
    """Return the functions and classes of a module by their names, and those of classes."""
    path = TESTS.parent.joinpath(*module.split(".")).with_suffix(".py")
    found = {}

    def collect(node, prefix=""):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                found[prefix + child.name] = child
                collect(child, f"{prefix}{child.name}.")

    collect(ast.parse(path.read_text()))
    return found


@cache
def sources_of_tests():
    """Return the source of each test by its name, decorators included."""
    sources = {}
    for path in [*TESTS.glob("query/test_*.py"), *TESTS.glob("experiment/test_*.py"),
                 *TESTS.glob("study/test_*.py")]:  # fmt: skip
        text = path.read_text()
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                sources[node.name] = ast.get_source_segment(text, node)
    return sources


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_formula_cites_where_it_comes_from_and_is_tested_against_another(module, name):
    cited = ast.get_docstring(definitions(module)[name]) or ""
    test, twin = FORMULAS[module][name]
    assert YEAR.search(cited), f"{module}.{name} cites nothing"
    source = sources_of_tests()[test]
    assert twin in source
    assert "assert" in source


@pytest.mark.parametrize("module", FORMULAS)
def test_every_formula_is_listed(module):
    defined = definitions(module)
    cited = {name for name, node in defined.items() if YEAR.search(ast.get_docstring(node) or "")}
    assert cited == set(FORMULAS[module])
    if module in NO_FORMULAS:
        public = {
            name
            for name, node in defined.items()
            if isinstance(node, ast.FunctionDef) and not re.search(r"^_|\.", name)
        }
        assert public - set(FORMULAS[module]) == NO_FORMULAS[module]
