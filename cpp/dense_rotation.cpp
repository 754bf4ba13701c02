#include "dense_rotation.hpp"

namespace gnomon {

Rotation choose_rotation(Matrix, const double*, Metric, std::size_t, const Kernels&) { return {}; }

double rotation_slack(const std::vector<float>&, std::size_t, std::size_t, const Kernels&) { return 0.0; }

void rotate_rows(const std::vector<double>& wide, Matrix rows, const double* factors, float* out,
                 const Kernels& kernels) {
    std::vector<double> turned(rows.dim * rows.rows);
    kernels.dense_dot_tile(wide.data(), rows.dim, rows.data, rows.rows, rows.dim, turned.data(), rows.rows);
    for (std::size_t d = 0; d < rows.dim; ++d)
        for (std::size_t r = 0; r < rows.rows; ++r)
            out[r * rows.dim + d] = static_cast<float>(turned[d * rows.rows + r] * factors[r]);
}

}  // namespace gnomon
