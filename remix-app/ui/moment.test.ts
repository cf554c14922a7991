import { expect, test } from "vitest";
import { formatRelativeTime } from "./moment.tsx";

const now = "2026-03-01T12:00:00Z";
const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;

test.each([
  [0, "just now"],
  [-59, "just now"],
  [-minute, "1 minute ago"],
  [-59 * minute - 29, "59 minutes ago"],
  [-hour + 1, "1 hour ago"],
  [-hour, "1 hour ago"],
  [-day + 1, "1 day ago"],
  [-2 * day, "2 days ago"],
  [-30 * day + 1, "30 days ago"],
  [-30 * day, "1 month ago"],
  [-365 * day, "1 year ago"],
  [-900 * day, "2 years ago"],
  [59, "just now"],
  [hour - 1, "in 1 hour"],
  [7 * day - 5, "in 7 days"],
])('the moment %s seconds from now is displayed as "%s"', (seconds, words) => {
  expect(formatRelativeTime({ at: new Date(Date.parse(now) + seconds * 1000).toISOString(), now })).toBe(words);
});
