/*-------------------------------------------------------------------------
 *
 * lsm_numbers.h
 *	  Loops over numbers and masks of a block's rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_NUMBERS_H
#define LSM_NUMBERS_H

#include "lsm.h"

/* How many rows a mask (0 or 1 for each) has. */
extern int	lsm_numbers_count(const uint8 *mask, int n);

/* Take those out of a mask that another one does not have. */
extern void lsm_numbers_and(uint8 *mask, const uint8 *other, int n);

/* pass[i]: is the number inside of lo to hi (both belong to it), or (outside) not? */
extern void lsm_numbers_inside(const int64 *values, int n, int64 lo, int64 hi, bool outside,
							   uint8 *pass);

/* The same of small numbers: below 2^31. */
extern void lsm_numbers_codes_inside(const uint32 *codes, int n, uint32 lo, uint32 hi,
									 bool outside, uint8 *pass);

extern void lsm_numbers_codes16_inside(const uint16 *codes, int n, uint16 lo, uint16 hi,
									   bool outside, uint8 *pass);

/* The rows of a mask, in order; returns how many.  There is room for all rows. */
extern int	lsm_numbers_list(const uint8 *mask, int n, uint16 *rows);

/* The least and the greatest; n is not 0. */
extern void lsm_numbers_bounds(const int64 *values, int n, int64 *min, int64 *max);

/* The sum; narrow: no sum of any of them leaves 64 bits.  mask NULL: of all. */
extern int128 lsm_numbers_sum(const int64 *values, const uint8 *mask, int n, bool narrow);

/* out = a * factor + b * other_factor; out = a * factor + c; out = a * b. */
extern void lsm_numbers_add(int64 *out, const int64 *a, int64 factor, const int64 *b,
							int64 other_factor, int n);
extern void lsm_numbers_add_const(int64 *out, const int64 *a, int64 factor, int64 c, int n);
extern void lsm_numbers_multiply(int64 *out, const int64 *a, const int64 *b, int n);

#endif							/* LSM_NUMBERS_H */
