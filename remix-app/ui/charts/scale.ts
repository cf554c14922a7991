const steps = [1, 2, 2.5, 5, 10];

/**
 * The marks of an axis from zero up to a round number that nothing exceeds.
 * @param largest of what is drawn, at least 0
 * @param options.whole for counts: no mark between two whole numbers
 */
export function axisMarks(largest: number, { intervals = 4, whole = false } = {}): number[] {
  const least = largest === 0 || (whole && largest < intervals) ? intervals : largest;
  const target = least / intervals;
  const power = 10 ** Math.floor(Math.log10(target));
  const fits = (step: number) => step * power >= target * (1 - 1e-9) && !(whole && !Number.isInteger(step * power));
  const step = (steps.find(fits) ?? 10) * power;
  return Array.from({ length: intervals + 1 }, (_, index) => Number((step * index).toPrecision(12)));
}

/** Which of so many things in a row get a label: the first, the last, and some between them at even distances. */
export function labelledIndexes(length: number, most = 5): number[] {
  if (length <= most) return Array.from({ length }, (_, index) => index);
  return Array.from({ length: most }, (_, index) => Math.round((index * (length - 1)) / (most - 1)));
}
