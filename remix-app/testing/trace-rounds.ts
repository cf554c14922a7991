/**
 * Preloaded into a web server under test (`--import`). Groups its outgoing calls into rounds, so that a call's round is
 * the number of calls that waited for each other until it was made. A round is answered as a whole: no call gets its
 * answer before all concurrent calls have theirs. Reports the calls of one request when asked, without those of the
 * schedule.
 */
export interface TracedCall {
  name: string;
  /** Counted from one. */
  round: number;
}

const scheduled = /\/rpc\/(sweep_\w+|delete_expired\w*|roll_up_usage|claim_due_mails|claim_logout_notices)$/;
const passOn = globalThis.fetch;
let calls: TracedCall[] = [];
let round = 1;
let unanswered = 0;
const release: (() => void)[] = [];

/** Answers the round's calls once all of them have been answered and no further call joins them. */
async function waitForRound(): Promise<void> {
  const released = new Promise<void>((resolve) => release.push(resolve));
  await new Promise(setImmediate);
  if (unanswered > 0 && release.length === unanswered) {
    round += 1;
    unanswered = 0;
    for (const answer of release.splice(0)) answer();
  }
  await released;
}

globalThis.fetch = async (input, init) => {
  const { pathname } = new URL(input instanceof Request ? input.url : input);
  if (scheduled.test(pathname) || !/^\/(rest|auth)\/v1\//.test(pathname)) return passOn(input, init);
  calls.push({ name: pathname.slice(pathname.indexOf("/v1/") + 4).replace("rpc/", ""), round });
  unanswered += 1;
  let response: Response;
  let body: ArrayBuffer;
  try {
    response = await passOn(input, init);
    body = await response.arrayBuffer();
  } finally {
    await waitForRound();
  }
  const { status, statusText, headers } = response;
  return new Response([204, 205, 304].includes(status) ? null : body, { status, statusText, headers });
};

process.on("message", async () => {
  while (unanswered > 0) await new Promise((resolve) => setTimeout(resolve, 1));
  process.send?.(calls);
  calls = [];
  round = 1;
});
