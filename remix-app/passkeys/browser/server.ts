/** Our server's answer: the body of a success, or the message to show. */
export type PostResult<Body> = { ok: true; body: Body } | Refusal;

export interface Refusal {
  ok: false;
  /** 0 if the page has to be reloaded because its session changed; -1 if the server did not answer. */
  status: number;
  detail: string;
  unknownPasskey: boolean;
}

const unreachable = "We couldn’t reach the server. Check your connection and try again.";
const unexpected = "Something went wrong on our side. Try again in a moment.";

export async function postJson<Body>(path: string, body: unknown): Promise<PostResult<Body>> {
  try {
    const response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify(body),
      // Our routes redirect people who must sign in or confirm their identity.
      redirect: "manual",
    });
    const answer = await response.json().catch(() => ({}));
    if (response.ok) return { ok: true, body: answer };
    const { code, detail: why = unexpected, unknownPasskey = false, requestId } = answer;
    const detail = response.status >= 500 && requestId ? `${why} Request ID: ${requestId}` : why;
    // Status 0 makes the page reload, which leads to the challenge that is now required.
    return { ok: false, status: code === "MFA_REQUIRED" ? 0 : response.status, detail, unknownPasskey };
  } catch {
    return { ok: false, status: -1, detail: unreachable, unknownPasskey: false };
  }
}
