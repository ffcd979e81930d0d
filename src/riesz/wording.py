"""The sentence of each note, by its code.

One sentence a line, so that what users report can be searched for. Files hold codes: one that was
released keeps its name and the names of its values.
"""

from collections.abc import Callable, Sequence

TEXT = "text"
"""The code of words that others wrote."""

Wording = str | Callable[..., str]
"""A template of a note's values, or a function of them."""

BY = "(log-density of an observation {mean:+.3f} +- {error:.2g}, 95 % interval {low:.2g} to {high:.2g})"
"""By how much one model is better than another."""


def unknown_numbers(size: int) -> str:
    return f"{size} unknown number{'' if size == 1 else 's'}"


def step_count(steps: int) -> str:
    return f"{steps} step{'' if steps == 1 else 's'}"


NOTABLE_ERROR = 0.1
"""Of a discretisation, in noise sd, from which a reader should do something."""


def mesh_refined(nodes: int, before: int, off: float) -> str:
    advice = "; the data need more nodes: give a finer mesh" * (off > NOTABLE_ERROR)
    return (
        f"the mesh has {nodes} nodes in the place of {before}, more where the data need them: what "
        f"is predicted is off by up to {off:.2g} noise sd{advice}"
    )


def discretisation(
    where: str,
    off: float,
    rms: float,
    by_steps: bool,
    is_corrected: bool = False,
    is_trusted: bool = True,
) -> str:
    what, advice = ("steps", "take shorter ones") if by_steps else ("mesh", "refine it")
    unknown = "" if is_trusted else "finer ones do not tell by how much: "
    told = f"; {unknown}{advice}" if off > NOTABLE_ERROR else ""
    return (
        f"{what}: what is predicted {'was' if is_corrected else 'is'} off by up to {off:.2g} noise "
        f"sd, at {where}, and by {rms:.2g} in the root mean square"
        + ("; data and predictions are corrected by that" if is_corrected else told)
    )


def modes(count: int, shares: Sequence[float], changes: int, is_rare: bool) -> str:
    listed = ", ".join(f"{share:.0%}" for share in shares)
    times = (
        f"only {changes} times, so that these shares are not to be relied on: where chains were "
        "started has made them."
        if is_rare
        else f"{changes} times."
    )
    return (
        f"the posterior has {count} separate peaks, with {listed} of the draws: means and standard "
        "deviations tell little of it, look at its distribution. Chains went from one to another "
        f"{times}"
    )


def map_search(steps: int, distance: float, is_cut: bool) -> str:
    return (
        f"the search for the mode ended {'out of time ' * is_cut}after {step_count(steps)}, about "
        f"{distance:.2g} posterior sd away from it: "
        f"{'allow more time' if is_cut else 'allow more with max_steps=...'}, or start elsewhere."
    )


def unconverged(
    steps: int,
    is_cut: bool,
    step: float = 0.0,
    mean_error: float | None = None,
    sd_error: float = 0.0,
) -> str:
    why = (
        f"a step was still {step:.2g} posterior sd long"
        if mean_error is None
        else f"by chance its means are off by up to {mean_error:.2g} posterior sd, its standard "
        f"deviations by {sd_error:.0%}"
    )
    return (
        f"q was not found in {step_count(steps)}{', and the time was over' * is_cut}: {why}. Allow "
        "more with max_steps=..., see more in each with num_draws=..., or use mcmc."
    )


def all_linear(size: int) -> str:
    every = "all of " if size > 1 else ""
    return f"the state is linear in {every}{unknown_numbers(size)}: nothing is left"


def normal_first(size: int) -> str:
    unknowns = unknown_numbers(size)
    return f"with {unknowns}, a normal distribution about the most likely ones is found first"


def observed_twice(count: int, total: int, first: Sequence[float], low: float, high: float) -> str:
    return (
        f"{count} places were observed more than once with different values, first {list(first)} "
        f"with {low:.6g} .. {high:.6g}: each of {total} values counts as independent of the others, "
        "unless the noise says what readings of a place share (grouped); aggregate = 'median' makes "
        "one of them."
    )


def only_ratios(terms: Sequence[str]) -> str:
    return (
        f"every term of the equation is scaled by an unknown ({', '.join(terms)}): values of u stay "
        "the same when all are multiplied by one number, so that only their ratios are identified, "
        "and the common scale comes from the priors alone. Give a known source, a flux, or an "
        "informative prior for one of them."
    )


def unused_unknowns(unknowns: Sequence[str]) -> str:
    return (
        f"the unknown {', '.join(map(repr, unknowns))} has a prior, but neither the equation nor the "
        "boundary nor the noise reads it: its posterior is its prior."
    )


def no_derivative(names: Sequence[str]) -> str:
    return (
        f"the data do not depend smoothly on {', '.join(map(repr, names))}: a comparison or "
        "rounding makes steps, whose derivative is zero, so that no gradient leads to the most "
        "likely values. Believe what is said of it only where draws were checked, or smooth the "
        "step over a cell or two, jax.nn.sigmoid((x - c) / width) for x > c."
    )


def observations_of(count: int) -> str:
    return f"{count} observation{'' if count == 1 else 's'}"


def lie(count: int) -> str:
    return "lies" if count == 1 else "lie"


def side(size: float) -> str:
    return "above" if size > 0 else "below"


def upper(words: str) -> str:
    return words[:1].upper() + words[1:]


def region(count: int, mean: float, where: str, which: str) -> str:
    missing = "a source, recharge or river" if mean > 0 else "a sink, a well or a drain"
    return (
        f"{observations_of(count)} around {where} {lie(count)} {abs(mean):.1f} sd {side(mean)} "
        f"what the others predict, on average ({which}): look for {missing} that the equation "
        "misses there, or a coefficient or boundary value that is another there."
    )


def neighbours_alike(likeness: float, reach: float, which: str) -> str:
    return (
        f"Residuals of neighbours are alike (Moran's I {likeness:.2f}, over distances of about "
        f"{float(f'{reach:.2g}'):g}): something varies over the map that no unknown follows; let a "
        "coefficient or a source be a field, shorten its length scale, or add what neighbours "
        f"share. {upper(which)} show it most."
    )


def heavy_tails(
    count: int,
    total: int,
    limit: float,
    largest: float,
    noise: str,
    expected: float,
    which: str,
    advice: object,
) -> str:
    return (
        f"{count} of {observations_of(total)} {lie(count)} more than {limit:.1f} sd from what all "
        f"others predict, up to {largest:.1f} sd, where the noise ({noise}) would put "
        f"{expected:.0f}: {which}. {advice}"
    )


def observation(
    which: str, where: str, observed: float, is_limit: bool, size: float, most: float, hangs: bool
) -> str:
    far = f"{abs(size):.1f}" if abs(size) < most else f"more than {most:.0f}"
    return (
        f"{upper(which)} at {where}, {'below ' * is_limit}{observed:.4g}, lies {far} sd "
        f"{side(size)} what all others predict for it: look for a slip of the pen, a wrong place "
        "or unit, or something that happens there alone."
        f"{' It holds the fit where it is: look at it first.' * hangs}"
    )


def not_left_out(model: str, count: int, is_block: bool) -> str:
    what = f"block{'s' * (count > 1)}" if is_block else "observations"
    return (
        f"{model}: weights cannot leave out {count} {what} (k-hat above 0.7), so that its score is "
        "too high or too low there; refits would tell (refit=True, or --refit)"
    )


def prior_level(field: str, size: float) -> str:
    return (
        f"The data pull the level of the field {field} to where its prior had next to nothing: "
        f"averaged over all of its places, it lies {abs(size):.1f} prior sd {side(size)} the "
        "prior's mean. State that anew, or look for what the equation misses that it makes up for."
    )


def prior_number(
    unknown: str,
    size: float,
    mean: float | None = None,
    low: float = 0.0,
    median: float = 0.0,
    high: float = 0.0,
) -> str:
    within = f"prior {median:.4g}, 95 % within {low:.4g} to {high:.4g}"
    values = "" if mean is None else f" ({mean:.4g}; {within})"
    return (
        f"The data pull {unknown} to where its prior had next to nothing: its posterior mean lies "
        f"{abs(size):.1f} prior sd {side(size)} the prior's median{values}. State the prior anew, "
        "or look for what the equation misses that it makes up for."
    )


def rows_filtered(column: str, wanted: str, count: int, total: int, file: str = "") -> str:
    of = f"{file}: " if file else ""
    return f"{of}{column} {wanted} keeps {count} of {total} rows"


def rows_in_window(column: str, window: str, count: int, total: int, undated: int) -> str:
    without = f" ({undated} without a date)" if undated else ""
    return f"{column} {window} keeps {count} of {total} rows{without}"


def rows_taken(count: int, total: int, homeless: int, empty: int, outside: int) -> str:
    parts = (
        (homeless, "of sites that are not in the table of sites"),
        (empty, "without numbers"),
        (outside, "outside the polygon"),
    )
    return f"rows: {count} of {total}" + "".join(f", {n} {what}" for n, what in parts if n)


WARNINGS: dict[str, Wording] = {
    TEXT: "{words}",
    # Samplers.
    "divergences": "{count} of {total} transitions diverged, so that a part of the posterior may be missed: raise target_accept, or look at the priors.",
    "too_few_draws": "there are too few draws to say whether the chains agree: take more.",
    "r_hat": "the chains do not agree yet: r_hat is {value:.3f} for {unknown}, above {limit}; take more warm-up and draws.",
    "chains_apart": "the chains do not agree yet: r_hat is {value:.3f} for {unknown}, above {limit}; they lie in different places: the posterior may have more than one peak, and these draws do not tell their weights; look at the chains one by one.",
    "effective_draws": "the draws of {unknown} are worth {value:.0f} independent ones, fewer than {limit:g}: means are good to {error:.0%} of a standard deviation; take more.",
    "tail_draws": "in the tails the draws of {unknown} are worth {value:.0f} independent ones, fewer than {limit:g}: its mean is good, the ends of its intervals are rough; take more.",
    "modes": modes,
    # Work that was cut short.
    "time_in_chains": "the time was over after {num_draws} draws of each of {num_chains} chains.",
    "time_in_rounds": "the time was over after {rounds} rounds.",
    "time_in_search": "the time was over in the search for the most probable values.",
    "time_before_spread": "the time was over before the spread of the unknowns that are not integrated out was known: all draws are at their most probable values, and too narrow. Allow more time.",
    # Normal distributions about a mode.
    "map_search": map_search,
    "few_directions": "{count} directions were looked at, and in the last of them the data still tell {share:.2g} of what the prior does: ask for more, num_modes=...",
    "variational_unconverged": unconverged,
    "variational_no_solution": "at {lost} of {total} draws of q the equation had no solution or the data no likelihood, and they were left out: look for priors that allow impossible coefficients.",
    # Surrogates and relaxed equations.
    "emulate_unsettled": "the posterior has not settled: in the last of {rounds} rounds the data had {percent:.3g} % of their weight, and it moved by {moved:.2g} of its standard deviations. Allow more rounds, or compare with mcmc on the density exact.",
    "surrogate_residual": "the surrogate leaves {percent:.2g} % of the equation, where noise would hide {limit:.2g} %: the posterior may be off by that. Ask for more features, or compare with mcmc on the density exact.",
    "reduced_k_hat": "k-hat of exact over approximate densities is {value:.2f}, above {limit}: the reduced basis or the surrogate is not good enough for its draws to be corrected by their weights. Make it larger, or use the density exact.",
    "epsilon_range": "the data leave a learned epsilon_rel between {low:.2g} and {high:.2g} (95 %, median {median:.2g}): the posterior is averaged over that range.",
    # Unknowns that are integrated out.
    "flat_directions": "around their most probable values the log-density of the unknowns that are not integrated out is flat or bends upwards in {count} of {total} directions: draws to be weighed there spread as the prior does at most, doubled. Use mcmc.",
    "hyper_k_hat": "the density of the unknowns that are not integrated out is far from the Gaussian about its mode, from which it was drawn with weights (k-hat {value:.2f}, above {limit}): use mcmc.",
    "hyper_slope": "the search for the most probable values ended where the slope still was {slope:.2g}: allow more with max_steps=..., or start elsewhere.",
    "singular_covariance": "{lost} of {total} values of scales and noise leave a covariance of the data that cannot be told from a singular one, and are left out: the data are met too well; give the noise a prior that keeps it away from zero, such as what instruments allow.",
    # Many data sets.
    "unlike_training": "these data are unlike those that the encoder was trained on (log-likelihood {fit:.4g}, usually above {usual:.4g}): check their units and order, or use another engine.",
    "not_normal": "draws of a normal distribution do not tell of the posterior (k-hat {k_hat:.2f}, worth {effective_draws:.0f} draws): fit this data set by itself, rz.fit.",
    "explained_elsewhere": "other values of the unknowns, far away, explain these data as well: fit this data set by itself, rz.fit.",
    "biased": "exact solves say that means may be off by {bias:.2g} standard deviations: fit this data set by itself, rz.fit.",
    "unexplained": "no values of the unknowns explain these data: they are less probable than what the model gives by {surprise:.2g} standard deviations of that. Look for wrong units, outliers, or physics that is missing.",
    # Why a posterior is not adequate.
    "k_hat_high": "k-hat is {value:.2f}",
    "hyper_k_hat_high": "k-hat of what is not integrated out is {value:.2f}",
    "moments_off": "its mean or spread is off",
    "r_hat_high": "r_hat is {value:.3f}",
    "few_effective": "its draws are worth {value:.0f} of the posterior",
    "higher_mode": "a search from elsewhere ends at a peak that is higher by e^{log_ratio:.3g}",
    "separate_modes": "there are {count} separate peaks",
    "engine_failed": "{error}",
    "adequacy_unknown": "nobody can say whether it will do: {error}",
    # What auto did: no warning where an engine was adequate in the end.
    "engine_inadequate": "{engine} will not do: {reason}",
    "engine_left_out": "{engine} was left out, which would take longer than there is time",
    "time_before_engine": "the time was over before {engine}",
    # Problem files and run folders. Where maps lie, and which version wrote a run, is no reason to doubt what was inferred.
    "crs_in_degrees": "the crs {crs} counts in degrees, which are no lengths: distances, areas and gradients will be wrong; bring the coordinates into a projected crs in metres, such as UTM.",
    "idle_boundary": "what enters at boundary.{tag} has no effect: u is prescribed on all of it",
    "scenario": "predicted under the changes of {file}",
    "draws_lost": "the equation has no solution for {lost} of {total} draws: left out",
    "not_summarised": "the posterior is kept, but could not be summarised: {error} Predictions may fail the same way: look for priors that allow impossible coefficients, or fit with another --engine or --seed.",
    "criticism_failed": "whether the data contradict the model could not be told: {error}",
    # Rows of tables.
    "axes_by_name": "x is the column {x} and y is {y}: longitude is x; swap them if they are what they say",
    "no_value": "{where}: {column} is {value:g} ({count} of {total} rows are like that): if that stands for no value, filter such rows out by where",
    "far_outlier": "{where}: {column} is {value:.10g}, far from all others: is it a slip?",
    "same_values": "{column} is {value:g} in all rows: there is nothing to map",
    "no_number": "{file}: {column} is no number, and the row left out: {which}",
    "moving_sites": "the readings of {count} sites are up to {distance:.6g} apart: each site is taken to be at the median of its coordinates",
    "outside_dropped": "{file}: {count} of {total} lie outside the domain and are dropped: {which}",
    # Problems.
    "observed_twice": observed_twice,
    "only_ratios": only_ratios,
    "unused_unknowns": unused_unknowns,
    "number_not_positive": "the prior of {unknown!r} reaches {low:.3g} at three standard deviations, but {place} must be positive: use a LogNormal prior (lognormal), or a narrower prior.",
    "field_not_positive": "the prior of {unknown!r} reaches {low:.3g} in {draws} draws, but {place} must be positive: use LogGP or transform=jnp.exp (log-gp, log-kl), or a narrower prior.",
    "idle_dirichlet": "the Dirichlet value on {tag!r} holds nowhere: tags that come later prescribe all of its nodes. Name the larger tag first.",
    # What contradicts a model.
    "posterior_in_doubt": "The posterior itself is in doubt ({reason}): what follows may be its doing, not the model's.",
    "region": region,
    "residuals_grow": "Residuals are larger where larger values are predicted: the noise is not the same everywhere; state it as a share of the value, or by a column of its own.",
    "residuals_shrink": "Residuals are smaller where larger values are predicted: the noise is not the same everywhere; state it as a share of the value, or by a column of its own.",
    "residuals_rise": "Residuals rise with {covariate} (correlation {correlation:+.2f}): {covariate} has an effect that the model lacks; give it as a covariate, or look for a term, a coefficient or a boundary value that changes with it.",
    "residuals_fall": "Residuals fall with {covariate} (correlation {correlation:+.2f}): {covariate} has an effect that the model lacks; give it as a covariate, or look for a term, a coefficient or a boundary value that changes with it.",
    "neighbours_alike": neighbours_alike,
    "readings_alike": "Residuals of one place are alike from reading to reading (correlation {correlation:.2f}): something changes in time that the model lacks, or readings share an error; add a series or shorter steps, or noise that readings of one place share.",
    "noise_larger": "Observations lie {size:.2g} times as far from what the others predict as the noise ({noise}) says, farthest {which}: the noise is larger than stated, or the equation misses something that moves all of them.",
    "noise_smaller": "Observations lie {size:.2g} times as far from what the others predict as the noise ({noise}) says: the noise is smaller than stated, or values were smoothed or copied.",
    "heavy_tails": heavy_tails,
    "observation": observation,
    "prior_field": "The data pull the field {field} to where its prior had next to nothing: what was learned of it is {size:.1f} times as far from its mean as the prior expects. Its mean or sd may be off, its length scale too long, or it makes up for something that the equation misses.",
    "prior_level": prior_level,
    "prior_number": prior_number,
    "not_left_out": not_left_out,
    # Checks.
    "not_checked": "not checked against exact solves: {num_draws} draws, the fewest, would take about {minutes:.0f} minutes. Ask for it by check=True, or riesz fit --check.",
    "mesh_error": discretisation,
    "check_failed": "{what} could not be checked: {error}",
    "mesh_refined": mesh_refined,
    "not_refined": "the mesh was not refined: {error}",
    "importance_tail": "importance sampling: k-hat is {value:.2f}, above {limit:.2g}: means are corrected, but standard deviations may still be too small. Compare with mcmc.",
    "importance_failed": "importance sampling: k-hat is {value:.2f}, above {limit:.2g}: the posterior reaches where q has next to no draws; neither q nor its corrected moments can be trusted. Compare with mcmc.",
    "importance_failed_sparse": "importance sampling: k-hat is {value:.2f}, above {limit:.2g}, the limit for {num_draws} draws: the posterior reaches where q has next to no draws; neither q nor its corrected moments can be trusted. Compare with mcmc.",
    "importance_shift": "importance sampling: the mean of {unknown} should lie {shift:+.2f} of its standard deviations away (Monte-Carlo error {error:.2f}).",
    "importance_narrow": "importance sampling: q is too narrow: the standard deviation of {unknown} is {ratio:.2f} of what it should be (Monte-Carlo error {error:.2f}).",
    "importance_wide": "importance sampling: q is too wide: the standard deviation of {unknown} is {ratio:.2f} of what it should be (Monte-Carlo error {error:.2f}).",
    "importance_lost": "importance sampling: {lost} of {total} draws of q have no solution or no likelihood, and weight zero: the posterior has none of them, q itself has.",
    "no_derivative": no_derivative,
    "first_order": "steps in time by Euler's scheme, of {step:.3g}, are about as long as a series is held, {period:.3g}: their error, of first order, is alike in all periods and passes for storage. Take scheme='sdirk2', the default, of second order, or steps of a tenth.",
}
"""Each is a reason to doubt the result."""

INFORMATION: dict[str, Wording] = {
    # Models beside each other.
    "physics_helps": "physics helps here: it predicts left-out {left_out} better than {rival} "
    + BY,
    "physics_costs": "physics costs here: {rival} predicts left-out {left_out} better " + BY,
    "physics_no_help": "physics does not help here: {rival} predicts left-out {left_out} as well "
    + BY,
    "of_model": "{model}: {verdict}",
    "model_better": "{model} predicts left-out {left_out} better than {other} " + BY,
    "models_alike": "{model} and {other} cannot be told apart " + BY,
    "no_rivals": "kriging and a plane do not stand beside these models: {reason}",
    # What to do about heavy tails.
    "state_heavy": "State the noise with heavy tails (Student-t), so that these move the fit less, or look for slips among them.",
    "state_counts": "State counts that vary more (negative binomial), or look for slips among them.",
    "state_heavier": "Give the noise fewer degrees of freedom, or look for slips among them.",
    # Why an engine is taken.
    "asked_for": "it was asked for",
    "named_by_file": "the problem file names it",
    "engine_renamed": "the engine {old} of earlier versions is a method and a density now: write name = '{method}' and density = '{density}' in [engine], and its settings in [engine.{method}] and [engine.{density}].",
    "float32": "exact solves need float64, and the problem is in float32",
    "all_linear": all_linear,
    "few_left": "all but {left} of {size} unknown numbers can be integrated out",
    "normal_first": normal_first,
    # What auto did: no warning where an engine was adequate in the end.
    "auto_started": "auto took {engine} first: {reason}",
    "engine_adequate": "{engine} will do",
    # Problem files and run folders. Where maps lie, and which version wrote a run, is no reason to doubt what was inferred.
    "not_placed": "neither {file} nor {outline} names a crs: maps will not say where on Earth they are; add crs = 'EPSG:...', a PROJ text or WKT",
    "maps_at_end": "maps show the state at {when}, where [time] ends, unless other dates are asked for",
    "other_version": "the run was written by riesz {saved}; this is {own}",
    # How rows of a table became observations.
    "rows_of_file": "{count} rows of {file}",
    "rows_filtered": rows_filtered,
    "rows_in_window": rows_in_window,
    "unknown_sites": "{count} readings of {sites} sites that {file} does not hold are left out, such as {example!r}",
    "below_limit": "{count} of {total} values are below a detection limit",
    "aggregated": "{how} of {fewest} to {most} readings at {count} sites",
    "rows_projected": "projected from {source} into {target}",
    "rows_outside": "{count} of {total} lie outside the domain and are dropped",
    # What init took a table for.
    "table_form": "table: {form}",
    "axes_guessed": "coordinates: {x} and {y}, by {reason}",
    "value_guessed": "value: {column}, by {reason}",
    "cells_emptied": "{column}: {count} cells hold {numbers}, which is taken for no value",
    "rows_taken": rows_taken,
    "rows_left_out": "outside: {which}",
    "sites_joined": "observations: {remark}, told by {column}",
    "dates_in_time": "dates: {column}, {first} to {last}",
    "dates_together": "dates: {column}, {first} to {last}: the map is of all together; name what changes by --recharge and --wells, tables with dates, for a model in time",
    "recharge_table": "recharge: {column}, {first} to {last}, in lengths a day",
    "wells_table": "wells: {column}, {first} to {last}, in volumes a day",
    "crs_moved": "projected: from {source} into {target}",
    "crs_likely": "crs: none is known; say so by --crs {likely}",
    "crs_from_degrees": "degrees are no lengths: projected into {crs}, in metres",
    "crs_on_earth": "on Earth: {place}",
    "crs_kept_degrees": "degrees are no lengths: better bring the coordinates into a projection in metres, as init does where pyproj is installed",
    "mesh_edges": "mesh: edges up to {edge}",
    "values_skewed": "values are positive and skewed: --log models their logarithm",
    "limits_need_nuts": "engine: mcmc, for values below a limit, of which there are {count}",
    # Predictions: which places, noise and covariates they are for.
    "places_outside": "{count} of {total} rows of {file} lie outside the domain, where nothing is predicted: {which}",
    "median_exposure": "counts are those for {column} = {median:.4g}, the median of that column",
    "median_trials": "a new share is one for {column} = {median:.4g}, the median of that column",
    "median_noise": "each observation has a noise of its own: that of {what} is their median",
    "places_unread": "{which} places have no readings of their own: what a site is off by is not known there, and how much sites differ is part of the interval",
    "usual_covariates": "values are for {values} everywhere, the average or most frequent: give others by --covariate NAME=VALUE or NAME=RASTER.tif, or places with these columns by {points}",
    "among_observations": "the domain was drawn about the observations: candidates lie among them; name others by --candidates",
}
"""None of them is."""
