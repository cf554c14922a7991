const maxCount = 1_000;

/** Formats a number that was counted up to 1,001: "42", "1,000", then "1,000+". */
export function countText(count: number): string {
  return count > maxCount ? `${maxCount.toLocaleString("en")}+` : count.toLocaleString("en");
}
