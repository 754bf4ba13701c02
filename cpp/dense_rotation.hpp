// An orthogonal matrix that moves most of the variance of the rows into the first dims, so that a screen may
// read those alone. Found from a sample: the subspaces of greatest variance by orthogonal iteration, the head
// as short as measured survivors allow, then random rotations inside head and tail, which change no norm and
// make coordinates alike, so that one scale codes them well (plain principal axes put most into the first).
#pragma once
#include <cstddef>
#include <vector>

#include "dense.hpp"

namespace gnomon {

struct Rotation {
    std::size_t dim = 0;
    std::size_t head = 0;  // dims, a multiple of 64; 0: no rotation
    int tail_shift = 0;    // tail codes have scales 2^-tail_shift of the head's
    double slack = 0.0;    // |v.y - (Rv).(Ry)| <= slack |v| |y|, rounding of Rv and Ry to float32 included
    std::vector<float> matrix;  // [dim, dim]; row i gives coordinate i
    std::vector<double> wide;   // the same

    void widen() { wide.assign(matrix.begin(), matrix.end()); }

    bool empty() const { return head == 0; }
    int shift() const { return 2 * tail_shift; }
    // Whether the head is whole kernel steps, leaves a tail, and no shifted sum overflows.
    static bool fits(std::size_t dim, std::size_t head, std::size_t tail_shift) {
        if (head == 0 || head % 64 != 0 || head >= dim || dim > 4096 || tail_shift > 8) return false;
        const double shifted = static_cast<double>(head << (2 * tail_shift)) + static_cast<double>(dim);
        return 127.0 * 127.0 * shifted < 2.1e9;
    }
};

// The rotation that pays for these rows, or an empty one: few rows, few or many dims, or a spectrum so flat
// that no head decides. Deterministic: it depends on the rows and the metric only.
// `insist` takes the longest head where none pays. Empty then too where the dims do not allow one, or norms
// lie beyond what rounding to float32 keeps.
Rotation choose_rotation(Matrix rows, const double* squares, Metric metric, bool insist, std::size_t threads,
                         const Kernels& kernels);

// What `slack` has to be for a matrix: measured distance from orthogonality and rounding.
double rotation_slack(const std::vector<float>& matrix, std::size_t dim, std::size_t threads,
                      const Kernels& kernels);

// rows [n, dim] times factors[i], rotated, as float32 into out [n, dim].
void rotate_rows(const Rotation& rotation, Matrix rows, const double* factors, float* out,
                 const Kernels& kernels);

}  // namespace gnomon
