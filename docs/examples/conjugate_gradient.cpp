// SPDX-License-Identifier: Apache-2.0
// Solves A x = b with conjugate gradients over MPI ranks: A is a symmetric positive definite matrix in Matrix Market
// form, b is made from a known solution, so that the answer can be checked.
//   opalrun -n 4 conjugate_gradient docs/examples/data/lshape_diffusion.mtx
// Rows are distributed in blocks.  Before each product the ranks exchange just the entries of the vector that others'
// rows refer to, with non-blocking sends; dot products are MPI_Allreduce.  Ends with status 0 only if the answer is
// right.
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Entry {
  int row;
  int column;
  double value;
};

/// Reads "matrix coordinate real symmetric|general"; the lower triangle of a symmetric one is mirrored.  Empty on
/// error.
std::vector<Entry> read_matrix_market(const std::string& path, int& size) {
  std::ifstream file{path};
  std::string line;
  if (!std::getline(file, line) || line.rfind("%%MatrixMarket matrix coordinate real", 0) != 0) {
    std::fprintf(stderr, "%s: not a real coordinate matrix in Matrix Market form\n", path.c_str());
    return {};
  }
  const bool symmetric = line.find("symmetric") != std::string::npos;
  while (std::getline(file, line) && line[0] == '%') {
  }
  int rows = 0;
  int columns = 0;
  long count = 0;
  std::istringstream{line} >> rows >> columns >> count;
  std::vector<Entry> entries;
  Entry entry{};
  for (long i = 0; i < count && file >> entry.row >> entry.column >> entry.value; ++i) {
    --entry.row;
    --entry.column;
    entries.push_back(entry);
    if (symmetric && entry.row != entry.column) entries.push_back({entry.column, entry.row, entry.value});
  }
  if (rows != columns || rows == 0 || !file) {
    std::fprintf(stderr, "%s: not square, or entries are missing\n", path.c_str());
    return {};
  }
  size = rows;
  return entries;
}

/// This rank's rows in compressed form.  Columns are local: own entries first, then the ones received from others.
struct LocalMatrix {
  int first = 0;
  int rows = 0;
  std::vector<int> start;
  std::vector<int> column;
  std::vector<double> value;
  struct Neighbour {
    int rank;
    std::vector<int> send;  // own entries it needs
    int receive_at;         // where its entries go
    int receive_count;
    std::vector<double> buffer;
  };
  std::vector<Neighbour> neighbours;
  int width = 0;  // own + received
};

int first_row(int size, int ranks, int rank) { return static_cast<int>(static_cast<long>(size) * rank / ranks); }

/// Rank 0 has the entries; every rank gets those of its rows.
std::vector<Entry> distribute(const std::vector<Entry>& all, int size, int ranks) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<std::vector<Entry>> parts(static_cast<std::size_t>(ranks));
  std::vector<int> counts(parts.size());
  std::vector<int> offsets(parts.size());
  std::vector<Entry> sorted;
  if (rank == 0) {
    std::vector<int> owner(static_cast<std::size_t>(size));
    for (int r = 0; r < ranks; ++r) {
      std::fill(owner.begin() + first_row(size, ranks, r), owner.begin() + first_row(size, ranks, r + 1), r);
    }
    for (const Entry& entry : all)
      parts[static_cast<std::size_t>(owner[static_cast<std::size_t>(entry.row)])].push_back(entry);
    for (std::size_t r = 0; r < parts.size(); ++r) {
      offsets[r] = static_cast<int>(sorted.size() * sizeof(Entry));
      counts[r] = static_cast<int>(parts[r].size() * sizeof(Entry));
      sorted.insert(sorted.end(), parts[r].begin(), parts[r].end());
    }
  }
  int bytes = 0;
  MPI_Scatter(counts.data(), 1, MPI_INT, &bytes, 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::vector<Entry> mine(static_cast<std::size_t>(bytes) / sizeof(Entry));
  MPI_Scatterv(sorted.data(), counts.data(), offsets.data(), MPI_BYTE, mine.data(), bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
  return mine;
}

LocalMatrix build(std::vector<Entry> mine, int size, int rank, int ranks) {
  LocalMatrix matrix;
  matrix.first = first_row(size, ranks, rank);
  matrix.rows = first_row(size, ranks, rank + 1) - matrix.first;
  const int end = matrix.first + matrix.rows;

  // Columns of others, ordered, so that those of one owner lie together.
  std::map<int, int> ghost;
  for (const Entry& entry : mine) {
    if (entry.column < matrix.first || entry.column >= end) ghost[entry.column] = 0;
  }
  matrix.width = matrix.rows;
  std::vector<std::vector<int>> wanted(static_cast<std::size_t>(ranks));
  int owner = 0;
  for (auto& [column, local] : ghost) {
    while (column >= first_row(size, ranks, owner + 1)) ++owner;
    wanted[static_cast<std::size_t>(owner)].push_back(column);
    local = matrix.width++;
  }

  // Tell every owner what we need of it.
  std::vector<int> want_counts;
  for (const auto& list : wanted) want_counts.push_back(static_cast<int>(list.size()));
  std::vector<int> give_counts(want_counts.size());
  MPI_Alltoall(want_counts.data(), 1, MPI_INT, give_counts.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::vector<MPI_Request> requests;
  for (int r = 0, at = matrix.rows; r < ranks; ++r) {
    const auto i = static_cast<std::size_t>(r);
    if (want_counts[i] == 0 && give_counts[i] == 0) continue;
    matrix.neighbours.push_back({r, std::vector<int>(static_cast<std::size_t>(give_counts[i])), at, want_counts[i],
                                 std::vector<double>(static_cast<std::size_t>(give_counts[i]))});
    at += want_counts[i];
  }
  for (auto& neighbour : matrix.neighbours) {
    const auto& list = wanted[static_cast<std::size_t>(neighbour.rank)];
    MPI_Irecv(neighbour.send.data(), static_cast<int>(neighbour.send.size()), MPI_INT, neighbour.rank, 1,
              MPI_COMM_WORLD, &requests.emplace_back());
    MPI_Isend(list.data(), static_cast<int>(list.size()), MPI_INT, neighbour.rank, 1, MPI_COMM_WORLD,
              &requests.emplace_back());
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  for (auto& neighbour : matrix.neighbours) {
    for (int& row : neighbour.send) row -= matrix.first;
  }

  std::sort(mine.begin(), mine.end(), [](const Entry& a, const Entry& b) { return a.row < b.row; });
  matrix.start.push_back(0);
  for (const Entry& entry : mine) {
    while (static_cast<int>(matrix.start.size()) <= entry.row - matrix.first) {
      matrix.start.push_back(static_cast<int>(matrix.column.size()));
    }
    const bool own = entry.column >= matrix.first && entry.column < end;
    matrix.column.push_back(own ? entry.column - matrix.first : ghost[entry.column]);
    matrix.value.push_back(entry.value);
  }
  matrix.start.resize(static_cast<std::size_t>(matrix.rows) + 1, static_cast<int>(matrix.column.size()));
  return matrix;
}

/// y = A x; x has room for matrix.width entries, of which the first matrix.rows are ours.
void multiply(LocalMatrix& matrix, std::vector<double>& x, std::vector<double>& y) {
  std::vector<MPI_Request> requests;
  for (auto& neighbour : matrix.neighbours) {
    MPI_Irecv(x.data() + neighbour.receive_at, neighbour.receive_count, MPI_DOUBLE, neighbour.rank, 2, MPI_COMM_WORLD,
              &requests.emplace_back());
  }
  for (auto& neighbour : matrix.neighbours) {
    for (std::size_t i = 0; i < neighbour.send.size(); ++i) {
      neighbour.buffer[i] = x[static_cast<std::size_t>(neighbour.send[i])];
    }
    MPI_Isend(neighbour.buffer.data(), static_cast<int>(neighbour.buffer.size()), MPI_DOUBLE, neighbour.rank, 2,
              MPI_COMM_WORLD, &requests.emplace_back());
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  for (int row = 0; row < matrix.rows; ++row) {
    double sum = 0;
    for (int i = matrix.start[static_cast<std::size_t>(row)]; i < matrix.start[static_cast<std::size_t>(row) + 1];
         ++i) {
      sum += matrix.value[static_cast<std::size_t>(i)] *
             x[static_cast<std::size_t>(matrix.column[static_cast<std::size_t>(i)])];
    }
    y[static_cast<std::size_t>(row)] = sum;
  }
}

double dot(const std::vector<double>& a, const std::vector<double>& b, int rows) {
  double local = 0;
  for (int i = 0; i < rows; ++i) local += a[static_cast<std::size_t>(i)] * b[static_cast<std::size_t>(i)];
  double sum = 0;
  MPI_Allreduce(&local, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 2) {
    if (rank == 0) std::fprintf(stderr, "usage: opalrun -n N %s MATRIX.mtx\n", argv[0]);
    MPI_Finalize();
    return 2;
  }

  int size = 0;
  std::vector<Entry> all;
  if (rank == 0) all = read_matrix_market(argv[1], size);
  MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (size == 0) {
    MPI_Finalize();
    return 1;
  }
  LocalMatrix matrix = build(distribute(all, size, ranks), size, rank, ranks);
  const auto width = static_cast<std::size_t>(matrix.width);

  std::vector<double> exact(width);
  std::vector<double> b(width);
  for (int i = 0; i < matrix.rows; ++i) exact[static_cast<std::size_t>(i)] = 1.0 + std::sin(0.01 * (matrix.first + i));
  multiply(matrix, exact, b);

  std::vector<double> x(width, 0.0);
  std::vector<double> r = b;
  std::vector<double> p = b;
  std::vector<double> q(width);
  const double start = MPI_Wtime();
  const double b_norm = std::sqrt(dot(b, b, matrix.rows));
  double rho = dot(r, r, matrix.rows);
  int iteration = 0;
  while (std::sqrt(rho) > 1e-12 * b_norm && iteration < 20 * size) {
    multiply(matrix, p, q);
    const double alpha = rho / dot(p, q, matrix.rows);
    for (int i = 0; i < matrix.rows; ++i) {
      const auto k = static_cast<std::size_t>(i);
      x[k] += alpha * p[k];
      r[k] -= alpha * q[k];
    }
    const double next = dot(r, r, matrix.rows);
    const double beta = next / rho;
    rho = next;
    for (int i = 0; i < matrix.rows; ++i) {
      const auto k = static_cast<std::size_t>(i);
      p[k] = r[k] + beta * p[k];
    }
    ++iteration;
    if (rank == 0 && iteration % 500 == 0) {
      std::printf("iteration %5d  relative residual %.3e\n", iteration, std::sqrt(rho) / b_norm);
    }
  }
  const double seconds = MPI_Wtime() - start;

  // The true residual, not the recurrence's, and the distance from the known solution.
  multiply(matrix, x, q);
  std::vector<double> difference(width);
  std::vector<double> error(width);
  for (int i = 0; i < matrix.rows; ++i) {
    const auto k = static_cast<std::size_t>(i);
    difference[k] = b[k] - q[k];
    error[k] = x[k] - exact[k];
  }
  const double residual = std::sqrt(dot(difference, difference, matrix.rows)) / b_norm;
  const double distance = std::sqrt(dot(error, error, matrix.rows) / dot(exact, exact, matrix.rows));
  const bool right = residual < 1e-10 && distance < 1e-6;
  if (rank == 0) {
    std::printf("conjugate gradients: %d unknowns, %d ranks, %d iterations in %.3f s\n", size, ranks, iteration,
                seconds);
    std::printf("relative residual %.3e, relative error %.3e: %s\n", residual, distance, right ? "right" : "WRONG");
  }
  MPI_Finalize();
  return right ? 0 : 1;
}
