# SPDX-License-Identifier: Apache-2.0
# The C types of the parts of `scalar`, for the compiled form alone.
cimport cython

cdef double PI, TAU, NAN, INFINITY, TINY, SMALL_ANGLE, DOUBLE_ROOT, WRIST_SINGULAR
cdef double _TAN_22_5_DEG, _BELOW_PI, _ROUND, _RIGHT, _RIGHT_REST, _PER_RIGHT, _MANY_TURNS
cdef double RIGID_TOLERANCE, _SERIES_BELOW, _NEARLY_SINGULAR, BENT, _MAY_CROSS
cdef double _CONVERGED, _ROUNDING, _REACH, _REGULAR, _STEADY, _LONGEST_STEP, _DAMPING
cdef double _RESIDUAL, _SAME, _NEW, _APART, _COS_APART, _CLOSED
cdef double _NEAR_WRIST, _NEAR_SHOULDER, _NEAR_WRIST_THERE, _FAR, _ALONE
cdef int _ITERATIONS, MOST


@cython.final
cdef class Arm:
    cdef double a2, a3, d1, d4, d5, d6
    cdef double[30] rows
    cdef double[6] offsets
    cdef double[72] nominal
    cdef double[72] steps
    cdef bint is_calibrated

    @cython.locals(a=double, ca=double, sa=double, x=double, y=double, z=double, k=int)
    cdef _fill_step(self, int i, mount, double* steps)

    @cython.locals(joints=double[6], axes=double[39], f=double[12], i=int, k=int)
    cpdef forward(self, const double[::1] q, double[:, ::1] T)

    @cython.locals(
        joints=double[6], sines=double[6], cosines=double[6], r=double[4], end=double[4],
        row=Py_ssize_t, frame=int, i=int, k=int
    )
    cpdef link_frames(self, const double[:, ::1] q, double[:, :, :, ::1] T)

    @cython.locals(
        joints=double[6], axes=double[39], f=double[12], columns=double[36], i=int, k=int
    )
    cpdef jacobian(self, const double[::1] q, bint in_tool, double[:, ::1] J)

    @cython.locals(
        joints=double[6], rates=double[6], p=double[3], speeds=double[2], i=int, k=int
    )
    cpdef double tcp_and_elbow_speed(
        self, const double[::1] q, const double[::1] qd, const double[::1] p_tool_tcp
    )

    @cython.locals(
        joints=double[6], rates=double[6], p=double[3], speeds=double[2], row=Py_ssize_t,
        i=int, k=int
    )
    cpdef all_speeds(
        self,
        const double[:, ::1] q,
        const double[:, ::1] qd,
        const double[::1] p_tool_tcp,
        double[:, ::1] speed,
    )

    @cython.locals(
        axes=double[39], f=double[12], v_tcp=double[3], v_elbow=double[3], tcp=double[3],
        elbow=double[3], i=int, j=int, k=int
    )
    cdef void _speeds(self, double* q, double* qd, double* p, double* speeds) noexcept

    cdef void chain(self, double* q, double* axes, double* f) noexcept

    @cython.locals(axes=double[39], f=double[12], i=int, k=int)
    cdef void nominal_pose(self, double* q, double* t) noexcept

    @cython.locals(
        sines=double[6], cosines=double[6], r=double[4], end=double[4], i=int, k=int
    )
    cdef void _follow(self, double* steps, double* q, double* axes, double* f) noexcept

    @cython.locals(angles=double[6], i=int)
    cdef void _sines(self, double* q, double* sines, double* cosines) noexcept

    cdef void _end_link(self, int i, double* r, double* end) noexcept


# ---- arm

@cython.locals(v=double[3], i=int, k=int)
cdef void fill_jacobian(double* axes, double* f, bint in_tool, double* columns) noexcept

@cython.locals(at=int, j=int)
cdef void _to_axis(double* steps, int i, double* r) noexcept

cdef void _turn_row(double s, double c, double* r) noexcept

cdef void _add_turn(double* axes, int i, double rate, double* p, double* v) noexcept


# ---- branch

@cython.locals(joints=double[6], i=int, row=Py_ssize_t)
cpdef classify(Arm arm, const double[:, ::1] q, Py_ssize_t[::1] branch)

@cython.locals(distances=double[3], is_crossed=bint, left=bint, up=bint, down=bint)
cdef int branch_row(Arm arm, double* q) noexcept

@cython.locals(angles=double[5], s=double[5], c=double[5])
cdef double fill_distances(Arm arm, double* q, double* distances) noexcept

@cython.locals(axes=double[39], f=double[12], J=double[36])
cdef bint _has_crossed(Arm arm, double* q, double x1, double s3, double s5) noexcept

cdef double _side(double distance, bint is_crossed) noexcept


# ---- calibrated

@cython.locals(
    t=double[16], joints=double[6], every=double[96], count=int, i=int, k=int
)
cpdef int solutions(
    Arm arm, const double[:, ::1] T, double q6, const double[::1] seed, double[:, ::1] q
)

@cython.locals(
    every=double[96], joints=double[6], nearest=double[8], count=int, desired=double,
    solution=int, i=int, k=int
)
cdef void solve_calibrated(
    Arm arm, double* t, double q6, bint has_seed, double* seed, double* rows, int* found
) noexcept

@cython.locals(
    shoulder=double[12], nominal=double[16], joints=double[6], distances=double[3], count=int,
    alone=int, side=int, searched=int, known=int, solution=int, i=int, k=int, _=int
)
cdef int _search(
    Arm arm, double* t, double q6, bint has_seed, double* seed, double* q
) noexcept

@cython.locals(seeds=double[12], turn=int, at=int)
cdef int _search_side(
    Arm arm, double* t, double* shoulder, double q6, int step, double* q, int known, int count
) noexcept

cdef double _shoulder(Arm arm, double* t, int side, double* shoulder) noexcept

@cython.locals(
    sines=double[8], cosines=double[8], angles=double[8], elbow=int, at=int, i=int
)
cdef bint _seeds(Arm arm, double* shoulder, double q6, int turn, double* seeds) noexcept

@cython.locals(joints=double[6], i=int)
cdef int _add(Arm arm, double* t, double* seeds, int at, double* q, int count) noexcept

@cython.locals(
    axes=double[39], f=double[12], J=double[36], A=double[42], miss=double[6], dq=double[6],
    off=double, before=double, left=double, step=int, i=int
)
cdef double _approach(Arm arm, double* t, double* q) noexcept

@cython.locals(same=bint, i=int, k=int)
cdef bint _is_among(double* joints, int at, double* q, int count, double within) noexcept

@cython.locals(r=double[9], w=double[3], i=int, k=int)
cdef void _miss(double* t, double* f, double* miss) noexcept

@cython.locals(
    damping=double, left=double, steepest=double, entry=double, i=int, j=int, k=int
)
cdef double _damped_step(double* J, double* miss, double* A, double* dq) noexcept

@cython.locals(bend=double[6], correction=double[6], left=double, i=int)
cdef double _correct(
    double* J, double* A, double damping, double length, double* dq
) noexcept

@cython.locals(i=int)
cdef double _step_again(double* J, double* A, double* miss, double* dq) noexcept

@cython.locals(i=int, j=int)
cdef double _joint_step(double* J, double* A, double* dq) noexcept

@cython.locals(turned=double[3], at=int, j=int, k=int)
cdef void fill_bend(double* J, double* dq, double* bend) noexcept


# ---- closed_form

@cython.locals(
    t=double[16], sines=double[24], cosines=double[24], found=int[8], k=int, i=int, at=int,
    count=int
)
cpdef int planes(Arm arm, const double[:, ::1] T, double q6, double[:, ::1] vectors)

@cython.locals(
    sines=double[24], cosines=double[24], angles=double[24], sides=int, k=int, i=int, at=int,
    row=int, side=int
)
cdef void solve(Arm arm, double* t, double q6, double* rows, int* found) noexcept

cdef bint _elbow(Arm arm, double sigma, double* sines, double* cosines, int at) noexcept

@cython.locals(sides=int, side=int, at=int, plane=int, is_double=bint)
cdef int _planes(
    Arm arm, double* t, double q6, double* sines, double* cosines, int* found
) noexcept

@cython.locals(free=bint)
cdef bint _wrists(
    Arm arm, double* t, double x1, double z, double q6, double* sines, double* cosines, int at
) noexcept

cdef void _turn(
    Arm arm,
    double* sines,
    double* cosines,
    int at,
    bint is_opposed,
    double x1,
    double z,
    double allowed,
    double bend,
) noexcept

cdef int _place(int k) noexcept


# ---- equations

@cython.locals(det=double, share=double, pivot=int, i=int, k=int, row=int)
cdef double determinant(double* A) noexcept

@cython.locals(entry=double, i=int, j=int, k=int)
cdef bint eliminate(double* A) noexcept

@cython.locals(i=int, k=int)
cdef void substitute(double* A) noexcept

@cython.locals(entry=double, i=int, k=int)
cdef void _substitute_back(double* A) noexcept

@cython.locals(best=int, pivot=double, entry=double, share=double, i=int, k=int, row=int)
cdef bint invert(double* A) noexcept


# ---- inverse

@cython.locals(
    t=double[16], rows=double[48], found=int[8], joints=double[6], i=int, k=int
)
cpdef bint inverse(
    Arm arm,
    const double[:, ::1] T,
    double q6,
    const double[::1] seed,
    double[:, ::1] q,
    unsigned char[::1] ok,
)

@cython.locals(
    t=double[16], rows=double[48], found=int[8], joints=double[6], i=int, k=int,
    pose=Py_ssize_t
)
cpdef bint inverse_all(
    Arm arm,
    const double[:, :, ::1] T,
    const double[::1] q6,
    const double[:, ::1] seed,
    double[:, :, ::1] q,
    unsigned char[:, ::1] ok,
)

@cython.locals(t=double[16], rows=double[48], found=int[8], count=int, i=int, k=int)
cpdef int solutions_near(
    Arm arm,
    const double[:, ::1] T,
    const double[::1] seed,
    const double[::1] low,
    const double[::1] high,
    double[:, ::1] q,
    Py_ssize_t[::1] branch,
    double[::1] distances,
)

@cython.locals(
    joints=double[6], away=double, row=Py_ssize_t, left=int, at=int, i=int, k=int
)
cdef int _nearest_first(
    double[:, ::1] q, Py_ssize_t[::1] branch, double[::1] distances, int count
) noexcept


# ---- joints

@cython.locals(best=Py_ssize_t, row=Py_ssize_t, smallest=double, largest=double, i=int)
cpdef Py_ssize_t nearest(
    const double[:, ::1] path,
    Py_ssize_t begin,
    Py_ssize_t end,
    const double[::1] q,
    double[::1] away,
)

@cython.locals(gap=double, i=int)
cpdef double largest_gap(const double[::1] q_a, const double[::1] q_b)

@cython.locals(i=int)
cpdef between(const double[::1] q_a, const double[::1] q_b, double share, double[::1] q)

@cython.locals(
    row=Py_ssize_t, j=int, largest=double, angle=double, desired=double, least=double,
    most=double, turned=double, turns=double
)
cpdef turn_near(
    double[:, ::1] q,
    const double[::1] seed,
    const double[::1] low,
    const double[::1] high,
    double[::1] distances,
)

@cython.locals(row=Py_ssize_t, j=int)
cpdef bint is_within(
    const double[:, ::1] q, const double[::1] low, const double[::1] high
) noexcept

@cython.locals(k=int, is_middle=bint, is_behind=bint)
cdef void angles_of(double* sines, double* cosines, int count, double* angles) noexcept

@cython.locals(k=int, is_odd=bint)
cdef void sines_of(double* angles, int count, double* sines, double* cosines) noexcept

cdef double wrapped(double angle) noexcept


# ---- laws

@cython.locals(
    joints=double[6], axes=double[39], f=double[12], J=double[36], t=double[12],
    goal=double[12], xi=double[6], A=double[72], weight=double, square=double, rate=double,
    i=int, k=int
)
cpdef bint resolved_rate(
    Arm arm,
    const double[::1] q,
    const double[:, ::1] T_goal,
    double gain,
    double length,
    double damped_below,
    double[::1] qd,
)

@cython.locals(
    joints=double[6], trial=double[6], axes=double[39], f=double[12], goal=double[12],
    e=double[6], w=double[36], J=double[36], d=double[8], value=double, squares=double,
    slope=double, bend=double, a=double, i=int, k=int, _=int
)
cpdef double descent(
    Arm arm,
    const double[::1] q,
    const double[:, ::1] T_goal,
    const double[:, ::1] root,
    double longest,
    int halvings,
    double[::1] dq,
)

@cython.locals(used=double, i=int)
cpdef limit_rate(
    Arm arm,
    const double[::1] q,
    double[::1] qd,
    const double[::1] qd_max,
    double speed,
    const double[::1] p_tool_tcp,
)

@cython.locals(t=double[12], e=double[6], square=double, i=int, k=int)
cdef double _weighted_error(double* root, double* f, double* goal, double* weighted) noexcept

@cython.locals(J=double[36], squares=double, along=double, i=int, j=int, k=int)
cdef double _gradient(double* root, double* columns, double* e, double* d) noexcept


# ---- motion

@cython.locals(
    T=double, u=double, after=double, uu=double, uuu=double, uuuu=double, bent=double,
    risen=double, steady=double, kept=double, gained=double, bends=double, grows=double,
    v0=double, a0T=double, dv=double, i=int
)
cpdef changed(
    const double[::1] q,
    const double[::1] qd,
    const double[::1] qdd,
    const double[::1] velocity,
    int cycles,
    int at,
    double cycle,
    double[:, ::1] state,
)

@cython.locals(cycles=int, i=int, fits=bint)
cpdef int fewest_cycles(
    const double[::1] qd,
    const double[::1] qdd,
    const double[::1] velocity,
    const double[:, ::1] limits,
    double cycle,
    int most,
)

@cython.locals(count=int, pair=Py_ssize_t, j=int, change=double, at=double)
cpdef int unproved(
    const double[:, ::1] levers,
    const double[:, ::1] q,
    const double[::1] spare,
    const double[::1] q_a,
    const double[::1] q_b,
    Py_ssize_t[::1] pairs,
)


# ---- poses

@cython.locals(
    r=double[9], w=double[3], p=double[3], v=double[3], i=int, k=int, pose=Py_ssize_t
)
cpdef log_se3(const double[:, :, ::1] T, double[:, ::1] twists)

@cython.locals(r=double[9], w=double[3], i=int, k=int, rotation=Py_ssize_t)
cpdef log_so3(const double[:, :, ::1] R, double[:, ::1] rotvecs)

@cython.locals(t=double[12], goal=double[12], xi=double[6], i=int, k=int)
cpdef error_twist(const double[:, ::1] T, const double[:, ::1] T_goal, double[::1] twist)

@cython.locals(t=double[12], goal=double[12], e=double[6], i=int, k=int)
cpdef body_error(const double[:, ::1] T, const double[:, ::1] T_goal, double[::1] error)

cpdef fill_pose(
    double px, double py, double pz, double x, double y, double z, double w, double[:, ::1] T
)

@cython.locals(entry=double, i=int, j=int, k=int)
cpdef compose(
    const double[:, ::1] T_a_b, const double[:, ::1] T_b_c, double[:, ::1] T_a_c
)

@cython.locals(away=double, i=int, k=int)
cpdef moved(
    const double[:, ::1] T, const double[::1] p, double share, double[:, ::1] T_moved
)

@cython.locals(w=double[3], i=int, k=int)
cpdef on_line(
    const double[:, :] T_start,
    const double[:] displacement,
    const double[::1] rotvec,
    double share,
    double[:, ::1] T,
)

@cython.locals(
    r=double[9], w=double[3], p=double[3], v=double[3], away=double[3], g=double,
    i=int, j=int, k=int
)
cdef void fill_error_twist(double* t, double* goal, double* twist) noexcept

@cython.locals(r=double[9], w=double[3], g=double, i=int, j=int, k=int)
cdef void fill_body_error(double* t, double* goal, double* error) noexcept

@cython.locals(quat=double[4], k=int)
cdef void log_rotation(double* r, double* w) noexcept

cdef void _linear_part_of_log(double* w, double* p, double* v) noexcept

@cython.locals(i=int, k=int)
cdef void read_pose(const double[:, ::1] T, int rows, double* t) noexcept

cdef bint is_rigid(double* t) noexcept

cdef double norm3(double* v, int at) noexcept
