/**
 * Dollars as people read them: two decimals from a cent on, two significant digits below. The exact figure stands
 * beside it, on hover and in files.
 * @param amount exact decimal text
 */
export function formatUsd(amount: string): string {
  const value = Number(amount);
  const size = Math.abs(value);
  const sign = value < 0 ? "-" : "";
  if (size === 0) return "$0.00";
  if (size >= 0.01)
    return `${sign}$${size.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  return `${sign}$${size.toLocaleString("en", { maximumSignificantDigits: 2, maximumFractionDigits: 12 })}`;
}
