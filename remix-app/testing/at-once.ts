/** Exceeds the number of the Data API's connections, so that every connection is busy and some calls wait. */
export const atOnce = 24;

/** Makes the calls concurrently, by default {@link atOnce} of them. @returns each answer */
export function callAtOnce<Answer>(
  call: (nth: number) => Promise<Answer>,
  { times = atOnce }: { times?: number } = {},
): Promise<Answer[]> {
  return Promise.all(Array.from({ length: times }, (_, nth) => call(nth)));
}
