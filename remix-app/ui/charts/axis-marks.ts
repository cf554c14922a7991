const steps = [1, 2, 5, 10];
const maxIntervals = 4;

/**
 * Returns an axis's marks, at most five: from zero in steps of 1, 2 or 5 times a power of ten, up to the first that no
 * value exceeds.
 * @param largest the largest drawn value, at least 0
 * @param options.whole for counts, which have no marks between whole numbers
 */
export function axisMarks(largest: number, { whole = false } = {}): number[] {
  const top = largest === 0 ? 1 : largest;
  const target = top / maxIntervals;
  const power = 10 ** Math.floor(Math.log10(target));
  const found = (steps.find((each) => each * power >= target * (1 - 1e-9)) ?? 10) * power;
  const step = whole ? Math.max(1, found) : found;
  const intervals = Math.max(1, Math.ceil((top / step) * (1 - 1e-9)));
  return Array.from({ length: intervals + 1 }, (_, index) => Number((step * index).toPrecision(12)));
}

/** Returns the positions that get a label: the first, the last, and some evenly spaced between them. */
export function labelledIndexes(length: number, most = 5): number[] {
  if (length <= most) return Array.from({ length }, (_, index) => index);
  return Array.from({ length: most }, (_, index) => Math.round((index * (length - 1)) / (most - 1)));
}
