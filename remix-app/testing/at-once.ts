/** More than the Data API has connections, so that each of those has a caller and some callers wait for one. */
export const atOnce = 24;

/** Calls as often, or as said, at the same moment. @returns what each answered */
export function callAtOnce<Answer>(
  call: (nth: number) => Promise<Answer>,
  { times = atOnce }: { times?: number } = {},
): Promise<Answer[]> {
  return Promise.all(Array.from({ length: times }, (_, nth) => call(nth)));
}
