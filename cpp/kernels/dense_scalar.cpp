// Dense kernels, portable level: the order of additions of kernels.hpp, written out.
#include "kernels.hpp"

namespace gnomon::scalar {

static double reduce(const double* lane) noexcept {
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

void dense_dot(const double* query, const float* rows, const std::uint32_t* ids, std::size_t n,
               std::size_t stride, std::size_t dim, double* out) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        const float* row = rows + (ids != nullptr ? ids[i] : i) * stride;
        double lane[8] = {};
        for (std::size_t d = 0; d < dim; ++d) lane[d % 8] += query[d] * static_cast<double>(row[d]);
        out[i] = reduce(lane);
    }
}

void dense_l2(const double* query, const float* rows, const std::uint32_t* ids, std::size_t n,
              std::size_t stride, std::size_t dim, double* out) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        const float* row = rows + (ids != nullptr ? ids[i] : i) * stride;
        double lane[8] = {};
        for (std::size_t d = 0; d < dim; ++d) {
            const double t = query[d] - static_cast<double>(row[d]);
            lane[d % 8] += t * t;
        }
        out[i] = reduce(lane);
    }
}

void dense_square(const float* rows, std::size_t n, std::size_t stride, std::size_t dim,
                  double* out) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        const float* row = rows + i * stride;
        double lane[8] = {};
        for (std::size_t d = 0; d < dim; ++d) {
            const double x = static_cast<double>(row[d]);
            lane[d % 8] += x * x;
        }
        out[i] = reduce(lane);
    }
}

void dense_dot_tile(const double* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                    std::size_t dim, double* out, std::size_t out_stride) noexcept {
    for (std::size_t q = 0; q < n_queries; ++q)
        dense_dot(queries + q * dim, rows, nullptr, n_rows, dim, dim, out + q * out_stride);
}

void dense_l2_tile(const double* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                   std::size_t dim, double* out, std::size_t out_stride) noexcept {
    for (std::size_t q = 0; q < n_queries; ++q)
        dense_l2(queries + q * dim, rows, nullptr, n_rows, dim, dim, out + q * out_stride);
}

}  // namespace gnomon::scalar
