import type { ChallengeKey } from "../login-challenges/challenge.ts";

/** The page that opens where a browser follows the link, rather than the app. */
const linkPath = "/qr/open";

/** The text of the QR code: a link to us with the secret in its fragment, which no browser sends anywhere. */
export function challengeLink({ id, secret }: ChallengeKey, { origin }: { origin: string }): string {
  return `${origin}${linkPath}#${id}.${secret}`;
}
