/** The usage of a call of the Messages API. Each input token is counted in exactly one of the four input fields. */
export type MessageUse = {
  uncached: number;
  cacheRead: number;
  cacheWrite5m: number;
  cacheWrite1h: number;
  output: number;
  searches: number;
};

/**
 * Prices of the demo's Messages models, in units of 10^-12 USD: 3 USD and 15 USD per million tokens, and 10 USD per
 * 1,000 searches.
 */
const inputPrice = 3_000_000;
const outputPrice = 15_000_000;
const searchPrice = 10_000_000_000;

/**
 * Returns what Anthropic would bill, in USD with 12 decimals. A cache read costs a tenth of the input's price, a write
 * for 5 minutes 1.25 times that price, and a write for one hour twice that price
 * (https://platform.claude.com/docs/en/about-claude/pricing).
 */
export function billUsd({ uncached, cacheRead, cacheWrite5m, cacheWrite1h, output, searches }: MessageUse): string {
  const units =
    BigInt(uncached) * BigInt(inputPrice) +
    BigInt(cacheRead) * BigInt(inputPrice / 10) +
    BigInt(cacheWrite5m) * BigInt((inputPrice / 4) * 5) +
    BigInt(cacheWrite1h) * BigInt(inputPrice * 2) +
    BigInt(output) * BigInt(outputPrice) +
    BigInt(searches) * BigInt(searchPrice);
  const digits = units.toString().padStart(13, "0");
  return `${digits.slice(0, -12)}.${digits.slice(-12)}`;
}
