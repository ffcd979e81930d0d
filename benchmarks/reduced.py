"""What does a gradient of the log-posterior cost by a reduced equation, and how far is it off?

Two problems on 33^2, 65^2 and 129^2 nodes: 64 blocks of constant diffusivity, and a log-diffusivity
of 20 Karhunen-Loeve terms with 40 sensors and two per cent of noise. 500 exact states span the
reduced equation, at draws of the normal distribution about the most likely unknowns; its error is
that at 200 others, in standard deviations of the noise at the sensors (root mean square). A
gradient's processor time is beside that of an exact one, without compilation.
"""

import time

from bench import parser_of, save, told

LEVELS = (3, 4, 5)
NUM_SNAPSHOTS, NUM_MODES, NUM_TESTED = 500, 250, 200
REPEATS = 30
NUM_TERMS, LENGTH_SCALE, NUM_SENSORS, RELATIVE_NOISE = 20, 0.3, 40, 0.02


def field_problem(levels: int, seed: int):
    import jax.numpy as jnp
    import numpy as np

    import riesz as rz

    rng, sides = np.random.default_rng(seed), 8 * 2 ** (levels - 1)
    points = rng.uniform(0.05, 0.95, (NUM_SENSORS, 2))

    def posed(values, noise_sd):
        field = rz.KarhunenLoeve(
            rz.Matern32(length_scale=LENGTH_SCALE), num_terms=NUM_TERMS, transform=jnp.exp
        )
        return rz.inverse_problem(
            rz.rectangle((sides, sides)),
            rz.diffusion("a") - rz.source(1.0),
            latents={"a": field},
            dirichlet={"boundary": 0.0},
            observations=rz.observations(points, values),
            likelihood=rz.Gaussian(noise_sd),
        )

    truth = jnp.asarray(rng.normal(size=NUM_TERMS))
    blank = posed(np.zeros(NUM_SENSORS), 1.0)
    clean = np.asarray(blank.operator @ blank.state(truth))
    noise_sd = float(RELATIVE_NOISE * np.abs(clean).max())
    return posed(clean + noise_sd * rng.standard_normal(NUM_SENSORS), noise_sd)


def block_problem(levels: int, seed: int):
    """With data from the mesh that is fitted: what is asked here is the cost."""
    import numpy as np

    from riesz_paper.experiments.blocks.problem import measured, posed, sensors

    return posed(levels, measured(posed(levels, np.zeros(len(sensors()))), seed))


PROBLEMS = {"field": field_problem, "blocks": block_problem}


def gradient_seconds(density, places, repeats: int) -> float:
    """Processor seconds of a value with its slope."""
    import equinox as eqx
    import jax

    program = eqx.filter_jit(lambda own, place: jax.value_and_grad(own)(place))
    jax.block_until_ready(program(density, places[0]))
    cpu = time.process_time()
    for number in range(repeats):
        jax.block_until_ready(program(density, places[1 + number]))
    return (time.process_time() - cpu) / repeats


def one_row(name: str, levels: int, seed: int, repeats: int) -> dict:
    import jax
    import jax.numpy as jnp
    import jax.random as jr
    import numpy as np

    from riesz.density.exact import ExactDensity, density_errors, solve_at
    from riesz.density.reduced_basis import density_from
    from riesz.method.mcmc.mcmc import gaussians_at_modes
    from riesz.posterior.posterior import ExactStates

    problem = PROBLEMS[name](levels, seed)
    solver, size = problem.default_solver(), problem.num_coordinates
    exact_density = ExactDensity(problem, solver)
    metric = gaussians_at_modes(exact_density, jnp.zeros(size), 1, jr.key(seed)).metric(0)

    def drawn(key: int, count: int):
        return jax.vmap(metric.unwhiten)(jr.normal(jr.key(key), (count, size)))

    cpu = time.process_time()
    seen = solve_at(problem, ExactStates(), drawn(1, NUM_SNAPSHOTS))
    density = density_from(problem, metric.centre, seen, NUM_MODES)
    built = time.process_time() - cpu
    tested = solve_at(problem, ExactStates(), drawn(2, NUM_TESTED))
    found = density_errors(density, tested)
    exact = gradient_seconds(exact_density, tested.points, repeats)
    reduced = gradient_seconds(density, tested.points, repeats)
    return {
        "problem": name,
        "nodes": problem.forward.space.mesh.num_nodes,
        "unknowns": size,
        "modes": density.reduced.num_modes,
        "terms": len(density.reduced.equation.matrices),
        "sensor_gap": float(np.sqrt(np.mean(found.gaps**2))),
        "log_ratio_sd": float(np.std(found.log_ratios)),
        "build_cpu_seconds": built,
        "exact_gradient_cpu_seconds": exact,
        "reduced_gradient_cpu_seconds": reduced,
        "exact_over_reduced": exact / reduced,
    }


SMOKE = {"LEVELS": (1,), "NUM_SNAPSHOTS": 80, "NUM_MODES": 4, "NUM_TESTED": 4, "REPEATS": 2}
SMOKE |= {"NUM_TERMS": 2, "NUM_SENSORS": 4}


def main() -> None:
    parser = parser_of(globals(), "results/bench-reduced.json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--levels", type=int, nargs="*", default=list(LEVELS))
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS))
    options = parser.parse_args()
    import jax

    jax.config.update("jax_enable_x64", True)
    rows = []
    for name in options.problems:
        for levels in options.levels:
            rows.append(told(one_row(name, levels, options.seed, options.repeats)))
    figures = {
        f"{row['problem']} {row['nodes']}: exact over reduced": row["exact_over_reduced"]
        for row in rows
    }
    config = {"snapshots": NUM_SNAPSHOTS, "modes": NUM_MODES, "repeats": options.repeats}
    save(options.out, config, options.seed, rows, figures)


if __name__ == "__main__":
    main()
