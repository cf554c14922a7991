import type { Env } from "../config/env.server.ts";
import type { ChallengeKey } from "../session/challenge.ts";

/** The page that opens where a browser follows the link, rather than the app. */
const linkPath = "/qr/open";

/**
 * The text of the QR code: a link with the secret in its fragment, which no browser sends anywhere. Its origin is the
 * platform's own, whatever host the browser is on: apps refuse every other.
 */
export function challengeLink({ id, secret }: ChallengeKey, { env }: { env: Pick<Env, "BASE_URL"> }): string {
  return `${env.BASE_URL}${linkPath}#${id}.${secret}`;
}
