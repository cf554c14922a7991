const months = [
  ...["January", "February", "March", "April", "May", "June"],
  ...["July", "August", "September", "October", "November", "December"],
];
const twoDigits = (number: number) => String(number).padStart(2, "0");

/**
 * Formats a date or time as a UTC date for pages and emails: "28 Nov 2026". @param at an RFC 3339 time, or only its
 * date
 */
export function formatDay(at: string | Date): string {
  const date = new Date(at);
  return `${date.getUTCDate()} ${months[date.getUTCMonth()]?.slice(0, 3)} ${date.getUTCFullYear()}`;
}

/** Formats a time with its zone: "28 Nov 2026, 09:05 UTC". */
export function formatDateTime(at: string | Date): string {
  const date = new Date(at);
  return `${formatDay(date)}, ${twoDigits(date.getUTCHours())}:${twoDigits(date.getUTCMinutes())} UTC`;
}

/** Formats a time to the second: "28 Nov 2026, 09:05:31 UTC". */
export function formatExactDateTime(at: string | Date): string {
  return formatDateTime(at).replace(" UTC", `:${twoDigits(new Date(at).getUTCSeconds())} UTC`);
}

/** Formats a month: "November 2026". @param at any day or time in it */
export function monthText(at: string | Date): string {
  const date = new Date(at);
  return `${months[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
}
