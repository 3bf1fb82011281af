"""What is derived of the programs, and the points at which shown source must agree with what is compiled."""

# ruff: noqa: E731, E741, N803, N806
# mypy: ignore-errors

import numpy as np

import gradsmith as gs
from tests.source.programs import linear as m
from tests.source.programs import losses as l
from tests.source.programs import models as o
from tests.source.programs import steps as s
from tests.source.programs import tables as t

R = np.random.default_rng(1)
N = R.normal


def spd(n, shift=3.0):
    a = R.normal(size=(n, n))
    return a @ a.T + shift * np.eye(n)


CASES = {}


def case(d, *points, tag=""):
    """Judge what ``d`` shows for the first of ``points`` at all of them."""
    name = d.__name__ + tag
    k = 2
    while name in CASES:
        name = f"{d.__name__}{tag}#{k}"
        k += 1
    CASES[name] = (d, points)


g, vg, J, H, jit = gs.grad, gs.value_and_grad, gs.jacobian, gs.hessian, gs.jit
lab = np.array([0, 2, 1])
X, Y = N(size=(5, 3)), N(size=5)
case(vg(l.mse, (0, 1)), (N(size=3), 0.1, X, Y), (N(size=3), -0.4, X, Y))
case(g(l.cross_entropy), (N(size=(3, 4)), lab), (N(size=(3, 4)), lab[::-1].copy()))
case(g(l.ridge), (N(size=3), X, Y, 0.1))
case(H(l.ridge), (N(size=3), X, Y, 0.1))
case(g(l.lasso), (N(size=3), X, Y, 0.1))
case(g(l.huber_vectorised, (0, 1)), (N(size=6), 0.7), (N(size=6), 0.2))
case(g(l.hinge), (N(size=3), X, np.sign(Y)))
case(g(l.poisson_nll), (N(size=3), X, R.integers(0, 5, 5) * 1.0))
case(vg(l.gaussian_nll, (0, 1)), (0.3, -0.2, Y))
case(g(l.student_t), (np.array([0.1, 0.2, 1.0]), Y))
case(H(l.student_t), (np.array([0.1, 0.2, 1.0]), Y))
case(g(l.gmm_loglik, (0, 1, 2)), (N(size=2), N(size=(2, 3)), N(size=(2, 3)), X))
case(g(l.gmm_by_loops, (0, 1, 2)), (N(size=2), N(size=(2, 3)), N(size=(2, 3)), X))
case(g(l.kmeans_cost, 1), (X, N(size=(2, 3))))
case(g(l.triplet, (0, 1, 2)), (X, X + 0.1 * N(size=X.shape), N(size=(5, 3))))
case(g(l.focal), (Y, (Y > 0) * 1))
case(g(l.black_scholes, (0, 1, 2, 3, 4)), (100.0, 95.0, 0.03, 0.2, 1.0), (100.0, 120.0, 0.03, 0.4, 0.5))
case(H(l.black_scholes, 0), (100.0, 95.0, 0.03, 0.2, 1.0))
case(g(l.rosenbrock), (N(size=4),))
case(H(l.rosenbrock), (N(size=4),))
case(g(l.rastrigin), (N(size=4),))
case(g(l.ackley), (N(size=4),))
case(g(l.himmelblau, (0, 1)), (1.0, 2.0))
case(H(l.himmelblau, (0, 1)), (1.0, 2.0))
case(g(l.sharpe), (N(size=3), X))
case(g(l.total_variation), (N(size=(4, 5)), 0.1, N(size=(4, 5))))
case(g(l.cosine_similarity, (0, 1)), (N(size=3), N(size=3)))
case(vg(l.vae_elbo, (0, 1, 4)), (N(size=2), N(size=2), N(size=2), N(size=3), N(size=(2, 3))))
case(g(l.variance_by_hand), (Y,))
case(g(l.softplus_scalar), (1.5,), (-0.7,))
case(g(l.haversine), (N(size=2), N(size=2)))
case(g(l.cox), (N(size=3), X, np.argsort(Y), (Y > 0) * 1.0))
case(g(l.einsum_bilinear, (0, 1, 2)), (N(size=(2, 3)), N(size=(3, 4)), N(size=(2, 4))))
case(g(l.arma_nll, (0, 1, 2)), (0.3, 0.2, 1.1, Y))
case(H(l.arma_nll, (0, 1)), (0.3, 0.2, 1.1, Y))
case(g(l.garch, (0, 1, 2)), (0.1, 0.2, 0.3, Y))
# steps
u = N(size=7)
case(g(s.heat, (0, 1)), (u, 0.1, 3), (u, 0.2, 5))
case(g(s.wave, (0, 1)), (u, 0.3, 4))
case(g(s.burgers, (0, 3)), (u, 0.01, 0.1, 0.07, 4))
case(g(s.burgers, 0), (u, 0.01, 0.1, 0.07, 4))
lv = np.array([1.1, 0.4, 0.4, 0.1])
case(J(s.rk4), (lv, np.array([2.0, 1.0]), 0.1, 5))
case(gs.jacobian(s.rk4, mode="reverse"), (lv, np.array([2.0, 1.0]), 0.1, 5), tag="_rev")
case(jit(s.rk4), (lv, np.array([2.0, 1.0]), 0.1, 5))
case(g(s.pendulum, (0, 1, 2)), (0.3, 0.1, 1.0, 0.01, 20))
case(gs.derivative(lambda x: s.pendulum(x, 0.1, 1.0, 0.01, 20)), (0.3,))
case(H(s.pendulum, 0), (0.3, 0.1, 1.0, 0.01, 20))
case(g(s.verlet, (0, 2)), (N(size=(3, 2)), N(size=(3, 2)), np.ones(3), 0.1, 3))
case(g(s.newton_root, (0, 1)), (1.0, 2.0), (2.0, 0.3))
case(g(s.newton_early_return), (2.0,), (0.3,))
case(gs.derivative(lambda a: s.newton_root(a, 2.0)), (1.0,))
case(g(s.bisect), (2.0, 0.0, 2.0), (0.5, 0.0, 3.0))
case(g(s.gradient_descent, (1, 2, 3)), (N(size=3), spd(3), N(size=3), 0.05, 4))
case(g(s.power_iteration), (spd(3), N(size=3), 4))
case(g(s.conjugate_gradient, 1), (spd(3), N(size=3), 1e-10))
case(g(s.logistic_map, (0, 1)), (3.2, 0.4, 10))
case(H(s.logistic_map, (0, 1)), (3.2, 0.4, 10))
case(g(s.mandelbrot_like, (0, 1)), (0.1, 0.2, 10), (0.9, 1.2, 10))
case(g(s.simpson, (0, 1, 2)), (0.0, 1.0, 0.7, 6))
case(g(s.bouncing_ball, (0, 1, 2)), (1.0, 0.1, 0.8, 0.05, 30))
case(J(s.sir, (0, 1)), (0.5, 0.2, 0.9, 0.1, 0.0, 6))
case(gs.jacobian(s.sir, (0, 1), mode="reverse"), (0.5, 0.2, 0.9, 0.1, 0.0, 6), tag="_rev")
case(J(s.ema), (u, 0.3))
case(J(s.ema, 1), (u, 0.3))
case(g(s.adam, (0, 1)), (u, 0.1, 5))
case(g(s.jacobi, (0, 1)), (spd(3), N(size=3), 4))
case(g(s.gauss_seidel, (0, 1)), (spd(3), N(size=3), 3))
case(g(s.fixed_point), (0.7, 1.0), (0.3, 0.2))
case(vg(s.pid), (np.array([2.0, 0.5, 0.1]), 1.0, 20), (np.array([20.0, 0.5, 0.1]), 1.0, 20))
case(g(s.adaptive_step), (1.0, 1.0, 1.0), (5.0, 2.0, 0.7))
case(g(s.game_of_smooth_life), (N(size=(3, 4)), 2))
case(g(s.horner, (0, 1)), (N(size=4), 0.3))
case(H(s.horner, 1), (N(size=4), 0.3))
case(g(s.continued_fraction), (np.arange(1.0, 5),))
case(g(s.tax), (5.0,), (20.0,), (70.0,))
case(jit(s.tax), (5.0,), (20.0,), (70.0,))
case(vg(s.tax), (5.0,), (20.0,), (70.0,))
case(jit(s.heat), (u, 0.1, 3))
case(jit(s.bisect), (2.0, 0.0, 2.0))
# tables
case(g(t.soft_edit_distance, (0, 1)), (R.random((3, 4)), 0.4))
case(g(t.soft_dtw, (0, 1)), (N(size=3), N(size=4), 0.5))
lp = np.log(R.random((3, 3)))
case(g(t.hmm_forward, (0, 1, 2)), (lp[0], lp, np.log(R.random((3, 4))), np.array([0, 3, 1, 2])))
case(g(t.viterbi, (0, 1)), (N(size=(4, 3)), N(size=(3, 3))))
case(g(t.crf_loss, (0, 1)), (N(size=(4, 3)), N(size=(3, 3)), np.array([0, 2, 1, 1])))
case(g(t.knapsack_soft), (R.random(3), np.array([1, 2, 3]), 5))
case(g(t.binomial_option, (0, 2, 3)), (100.0, 105.0, 0.2, 0.03, 4))
case(g(t.longest_path), (R.random((5, 5)),))
case(g(t.fibonacci_memo, (0, 1)), (1.0, 2.0, 6))
case(g(t.determinant_minors), (N(size=(3, 3)),))
case(g(t.tree_sum, 1), ([1.0, [2.0, 0.3], [0.4]], 0.5))
case(g(t.tree_sum), ([1.0, [2.0, 0.3], [0.4]], 0.5))
case(g(t.bspline, (0, 2)), (2.3, np.arange(6.0), N(size=3)))
case(g(t.running_median), (u,))
case(g(t.nearest_neighbours, (0, 1)), (X, N(size=(4, 3))))
case(g(t.prefix_scan), (u,))
case(g(t.ctc_like), (R.random((4, 3)), np.array([0, 2])))
# linear
case(J(m.cholesky), (spd(3),))
case(g(m.logdet_by_cholesky), (spd(3),))
case(g(m.lu_det), (spd(3),))
case(J(m.gauss_solve, 1), (N(size=(3, 3)), N(size=3)))
case(jit(m.gauss_solve), (N(size=(3, 3)), N(size=3)), (N(size=(3, 3)), N(size=3)))
case(jit(m.cholesky), (spd(3),))
case(g(m.thomas, (0, 1, 2, 3)), (N(size=5), 4 + R.random(5), N(size=5), N(size=5)))
case(g(m.gram_schmidt), (N(size=(4, 3)),))
case(g(m.matmul_by_hand, (0, 1)), (N(size=(2, 3)), N(size=(3, 2))))
case(g(m.power_spectrum), (N(size=8),))
case(g(m.dft), (u,))
case(g(m.conv1d, (0, 1)), (u, N(size=3)))
case(g(m.conv2d, (0, 1)), (N(size=(5, 6)), N(size=(2, 3))))
case(g(m.max_pool), (N(size=(4, 6)),))
case(g(m.mahalanobis, (0, 1, 2)), (N(size=3), N(size=3), spd(3)))
case(vg(m.mvn_logpdf, (1, 2)), (X, N(size=3), np.linalg.cholesky(spd(3))))
case(g(m.kalman, (0, 2, 3)), (0.5 * np.eye(2) + 0.1, np.array([[1.0, 0.5]]), spd(2), spd(1), N(size=(4, 1))))
case(vg(m.kalman_1d, (0, 1)), (0.1, 0.2, u))
case(H(m.kalman_1d, (0, 1)), (0.1, 0.2, u))
case(g(m.polyfit_residual, (0, 1)), (N(size=6), N(size=6), 2))
case(J(m.rotation), (N(size=3), N(size=3)))
case(gs.jacobian(m.rotation, mode="reverse"), (N(size=3), N(size=3)), tag="_rev")
case(J(m.rodrigues, (0, 1)), (N(size=3), N(size=3)), (np.zeros(3), N(size=3)))
cam = np.concatenate([0.1 * N(size=6), [500.0, 3.0, 4.0, 0.01, 0.001]])
case(J(m.reprojection_error, (0, 1, 2)), (cam, np.array([0.1, 0.2, 3.0]), 1.0, np.array([1.0, 2.0])))
case(
    g(m.bundle_cost, (0, 1, 2)),
    (
        np.stack([cam, cam + 0.01]),
        N(size=(3, 3)) + [0, 0, 5],
        np.ones(4),
        np.array([[0, 0], [1, 1], [0, 2], [1, 2]]),
        N(size=(4, 2)),
    ),
)
case(g(m.laplacian_quadratic, (0, 1)), (R.random((3, 3)), N(size=3)))
case(g(m.expm_taylor), (N(size=(3, 3)), 5))
# models
L = lambda: o.MLP([o.Dense(N(size=(3, 4)), N(size=4)), o.Dense(N(size=(4, 2)), N(size=2), o.identity)])
case(g(o.class_mlp_loss), (L(), X, N(size=(5, 2))))
case(vg(o.class_mlp_loss), (L(), X, N(size=(5, 2))))
P = lambda: dict(w1=N(size=(3, 4)), b1=N(size=4), w2=N(size=(4, 2)), b2=N(size=2))
case(g(o.dict_mlp_loss), (P(), X, N(size=(5, 2))))
case(vg(o.dict_mlp_loss), (P(), X, N(size=(5, 2))))
lp_ = {f"{a}{q}": N(size=(3, 5)) if a == "W" else N(size=3) for q in "fiog" for a in "Wb"}
case(g(o.lstm_loss), (lp_, N(size=(4, 2)), N(size=3)))
case(g(o.gradbench_lstm, (0, 1)), (N(size=12), N(size=12), N(size=(4, 3)), (N(size=12), N(size=3))))
case(g(o.rnn_loss, (0, 1, 2)), (N(size=(3, 2)), N(size=(3, 3)), N(size=3), N(size=(4, 2)), N(size=(4, 3))))
case(
    g(o.transformer_block),
    (dict(wq=N(size=(3, 3)), wk=N(size=(3, 3)), wv=N(size=(3, 3)), g=np.ones(3), b=np.zeros(3), w=N(size=(3, 4))), X),
)
case(g(o.potential), ([o.Body(1.0, N(size=2)), o.Body(2.0, N(size=2)), o.Body(0.5, N(size=2))],))
case(g(o.oscillate, (0, 1)), (o.Spring(2.0, 0.5), 1.0, 0.0, 10))
case(g(o.simulate_states, (0, 1)), (o.State(1.0, 0.0), 2.0, 10))
case(g(o.accumulate, (0, 1)), (0.9, u))
case(g(o.bezier, (0, 3)), (np.ones(2), N(size=2), N(size=2), N(size=2), 0.3))
case(g(o.configured), (N(size=(3, 2)), X, o.Config(dropout={"a": 0.1})))
gp = o.GP(N(size=4), N(size=4))
case(g(gp.nll), ({"amp": 1.2, "len": 0.7},))
case(H(gp.nll), ({"amp": 1.2, "len": 0.7},))
case(g(o.scaled), (u, u + 1))
case(g(o.nested_params), (((u, u + 1), {"c": [1.0, (2.0, 3.0)]}),))
case(jit(o.nested_params), (((u, u + 1), {"c": [1.0, (2.0, 3.0)]}),))
case(g(o.graph_conv, 2), (R.random((4, 4)), N(size=(4, 3)), [N(size=(3, 3)), N(size=(3, 2))]))
case(g(o.neural_ode), ({"w": N(size=(2, 2)), "b": N(size=2)}, N(size=2), 0.0, 1.0, 5))
case(g(o.by_kind), (u[:3], ["square", "exp", "x"]))
case(g(o.guarded_log), (np.abs(u),))
case(g(o.generator_sum), (u,))
# products
case(gs.hvp(l.rosenbrock), (N(size=4), N(size=4)))
case(gs.hvp(l.rastrigin), (N(size=4), N(size=4)))


def jvp_heat(u, du):
    return gs.jvp(lambda u: s.heat(u, 0.1, 3), (u,), (du,))


def vjp_rk4(p, w):
    return gs.vjp(lambda p: s.rk4(p, np.array([2.0, 1.0]), 0.1, 5), p)[1](w)


def jvp_newton(a, da):
    return gs.jvp(s.newton_early_return, (a,), (da,))


def jvp_chol(A, dA):
    return gs.jvp(m.cholesky, (A,), (dA,))


def vjp_chol(A, W):
    return gs.vjp(m.cholesky, A)[1](W)


def jvp_lstm(x, dx):
    return gs.jvp(lambda w: o.gradbench_lstm(w, W12, XS, (H12, C3)), (x,), (dx,))


W12, XS, H12, C3 = N(size=12), N(size=(4, 3)), N(size=12), N(size=3)
case(jit(jvp_heat), (u, N(size=7)))
case(jit(vjp_rk4), (lv, N(size=2)))
case(jit(jvp_newton), (2.0, 1.0))
case(jit(jvp_chol), (spd(3), spd(3)))
case(jit(vjp_chol), (spd(3), N(size=(3, 3))))
case(jit(jvp_lstm), (N(size=12), N(size=12)))
case(gs.vmap(g(l.rosenbrock)), (N(size=(3, 4)),))
case(gs.vmap(g(s.newton_early_return)), (R.random(3) + 1,))
