/** A session this close to its expiry is refreshed first. */
export const refreshMarginSeconds = 90;
/** How long a refresh's result answers for the token it replaced. */
export const refreshResultKeptMs = 30_000;

/** How often a request that loses a race for its session looks again before it gives up. */
export const maxVerdicts = 4;

/** Bounds on what one request waits for; with those of #shared/claims.ts they stay below 10 s. */
export const refreshTimeoutMs = 4_000;
/** What an account demands is known within two seconds, or the answer is 503. */
export const policyTimeoutMs = 1_900;
export const authCallTimeoutMs = 8_000;

/** How long a sign-in counts as fresh for changes that matter. */
export const freshSignInMs = 10 * 60 * 1000;
