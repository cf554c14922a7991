const minute = 60;
const hour = 60 * minute;

/** A wait as people say it: `12 seconds`, `3 minutes`, `2 hours`. Never shorter than it is. */
export function waitInWords(seconds: number): string {
  if (seconds <= 90) return count(Math.max(1, Math.ceil(seconds)), "second");
  if (seconds <= 90 * minute) return count(Math.ceil(seconds / minute), "minute");
  return count(Math.ceil(seconds / hour), "hour");
}

function count(amount: number, unit: string): string {
  return `${amount} ${unit}${amount === 1 ? "" : "s"}`;
}
