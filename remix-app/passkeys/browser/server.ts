/** What our server answered: the body of a success, or what to say. */
export type Answer<Body> = { ok: true; body: Body } | Refused;

export interface Refused {
  ok: false;
  /** 0 where the page itself has to be loaded anew, since its session is not what it was; -1 where nobody answered. */
  status: number;
  detail: string;
  unknownPasskey: boolean;
}

const unreachable = "We couldn’t reach the server. Check your connection and try again.";
const unexpected = "Something went wrong on our side. Try again in a moment.";

/** Posts JSON to our server. */
export async function post<Body>(path: string, body: unknown): Promise<Answer<Body>> {
  try {
    const response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify(body),
      // Pages send people who must sign in, or confirm who they are, elsewhere.
      redirect: "manual",
    });
    const answer = await response.json().catch(() => ({}));
    if (response.ok) return { ok: true, body: answer };
    const { code, detail: why = unexpected, unknownPasskey = false, requestId } = answer;
    const detail = response.status >= 500 && requestId ? `${why} Request ID: ${requestId}` : why;
    // The page's own address leads into the challenge that is due now.
    return { ok: false, status: code === "MFA_REQUIRED" ? 0 : response.status, detail, unknownPasskey };
  } catch {
    return { ok: false, status: -1, detail: unreachable, unknownPasskey: false };
  }
}
