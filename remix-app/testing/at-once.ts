/** More than the Data API has connections, so that each connection is busy and some callers wait. */
export const atOnce = 24;

/** Makes the calls concurrently, by default {@link atOnce} of them. @returns each answer */
export function callAtOnce<Answer>(
  call: (nth: number) => Promise<Answer>,
  { times = atOnce }: { times?: number } = {},
): Promise<Answer[]> {
  return Promise.all(Array.from({ length: times }, (_, nth) => call(nth)));
}
