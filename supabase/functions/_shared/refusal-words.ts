/**
 * Returns a time for people, to the minute, with its zone: "00:00 on 1 December 2026 (Europe/Berlin)". A zone that this
 * process doesn't know becomes UTC.
 */
export function moment(time: string, timeZone: string): string {
  const date = new Date(time);
  const zone = knowsZone(timeZone) ? timeZone : "UTC";
  const clock = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: zone });
  const day = date.toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: zone });
  return `${clock} on ${day} (${zone})`;
}

function knowsZone(timeZone: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone });
    return true;
  } catch {
    return false;
  }
}

export function count(number: number): string {
  return number.toLocaleString("en");
}

/** Returns the part of a sentence about what calls in progress hold; empty if they hold nothing. */
export function inProgress(reserved: number | undefined, sign: string): string {
  return reserved ? `, and calls in progress hold ${sign}${amount(reserved, "floor")}` : "";
}

/** Returns two amounts of which the first is less, so that their texts differ too: rounded apart, or exact. */
export function lessAndMore(less: number, more: number): [string, string] {
  const rounded: [string, string] = [amount(less, "floor"), amount(more, "ceil")];
  return rounded[0] === rounded[1] ? [exact(less), exact(more)] : rounded;
}

/** Formats an amount with up to four decimals, and small ones with four digits. */
function amount(value: number, roundingMode: "floor" | "ceil"): string {
  const digits = value >= 0.1 || value === 0 ? { maximumFractionDigits: 4 } : { maximumSignificantDigits: 4 };
  return new Intl.NumberFormat("en", {
    minimumFractionDigits: value >= 0.1 || value === 0 ? 2 : undefined,
    ...digits,
    roundingMode,
  }).format(value);
}

export function exact(value: number): string {
  return new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 12 }).format(value);
}
