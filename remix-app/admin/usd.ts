/** A price as people read it: without zeros that say nothing, with two decimals at least. */
export function usd(amount: string | null): string {
  return amount === null ? "–" : `$${amount.replace(/(\.\d\d\d*?)0+$/, "$1")}`;
}
