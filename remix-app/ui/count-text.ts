const most = 1_000;

/** A number that was counted no further than one above 1,000: "42", "1,000", then "1,000+". */
export function countText(count: number): string {
  return count > most ? `${most.toLocaleString("en")}+` : count.toLocaleString("en");
}
