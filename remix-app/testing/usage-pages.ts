/** A page of OpenAI's hourly usage, with the results of some hours of a day and none for the others. */
export function openAiHourPage(
  day: string,
  results: Readonly<Record<number, readonly object[]>>,
  {
    from = 0,
    to = 24,
    next = null,
    more = next !== null,
  }: { from?: number; to?: number; next?: string | null; more?: boolean } = {},
): string {
  const data = Array.from({ length: to - from }, (_, index) => {
    const start_time = Date.parse(day) / 1_000 + (from + index) * 3_600;
    return { object: "bucket", start_time, end_time: start_time + 3_600, results: results[from + index] ?? [] };
  });
  return JSON.stringify({ object: "page", data, has_more: more, next_page: next });
}
