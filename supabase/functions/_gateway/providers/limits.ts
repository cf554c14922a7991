/** Time limits of a provider call, in milliseconds: of each route, of all that are tried one after another, and in all. */
export type TimeLimits = {
  connectMs: number;
  firstByteMs: number;
  routesMs: number;
  idleMs: number;
  totalMs: number;
};
/** The platform gives a function 150 s until its first byte. */
export const firstByteWithinMs = 140_000;
export const defaultTimeLimits = {
  connectMs: 5_000,
  firstByteMs: 60_000,
  routesMs: firstByteWithinMs,
  idleMs: 30_000,
} as const;

/** The limits of one call. An answer that is not streamed has its first byte when it is whole: it may use all the time. */
export function limitsFor(limits: TimeLimits, { stream }: { stream: boolean }): TimeLimits {
  return stream ? limits : { ...limits, firstByteMs: limits.routesMs };
}
