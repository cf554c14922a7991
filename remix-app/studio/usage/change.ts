/** How a figure stands against that of the previous range. */
export interface Change {
  direction: "up" | "down" | "same";
  /** Without a sign, such as "12%"; "new" where there was nothing before. */
  text: string;
}

/**
 * Compares two figures of adjacent ranges.
 * @returns null where either is unknown, or both are nothing
 */
export function changeOf(now: number | string | null, before: number | string | null): Change | null {
  if (now === null || before === null) return null;
  const [to, from] = [Number(now), Number(before)];
  if (to === from) return to === 0 ? null : { direction: "same", text: "0%" };
  const direction = to > from ? "up" : "down";
  if (from === 0) return { direction, text: "new" };
  const percent = Math.abs(((to - from) / from) * 100);
  if (percent < 0.1) return { direction, text: "under 0.1%" };
  if (percent >= 1_000) return { direction, text: "over 999%" };
  return { direction, text: `${percent.toFixed(percent < 9.95 ? 1 : 0)}%` };
}
