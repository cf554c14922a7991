import type { AppLoadContext } from "@remix-run/server-runtime";
import { type CookieJar, createCookieJar } from "./http/cookies.ts";
import type { TokenBearer } from "./identity/edge-proxy.ts";
import type { RequestContext } from "./load-context.ts";
import type { RequestFacts } from "./request-facts.ts";
import type { Runtime } from "./runtime.ts";

/** Whose request it is said to be. */
type Credentials = { authorization: string | null; jar: CookieJar };

/** The credentials of a request that brings none. */
export function nobody(): Credentials {
  return { authorization: null, jar: createCookieJar(null) };
}

/**
 * Makes the context of a request, and begins to open its session: what can be done without it is done while the database
 * is asked. Whoever calls waits for `opened` before the answer goes out.
 */
export function openContext(
  { given, openSession }: Pick<Runtime, "given" | "openSession">,
  { facts, authorization, jar }: Credentials & { facts: RequestFacts },
): AppLoadContext {
  const { formTargets, widgets, texts, personal: _, retryAfterSeconds: __, settle: ___, ...rest } = facts;
  const { origin, clientAddress } = facts;
  let onVerified: (bearer: TokenBearer) => void = () => {};
  const verified = new Promise<TokenBearer>((resolve) => {
    onVerified = resolve;
  });
  const session = openSession({ authorization, jar, origin, clientAddress, onVerified });
  const context: Omit<RequestContext, "session"> & Partial<Pick<RequestContext, "session">> = {
    ...rest,
    ...given,
    refusal: null,
    allowFormTarget: (target) => formTargets.add(target),
    allowWidget: (widget) => widgets.add(widget),
    giveText: (answer, text) => texts.set(answer, text),
    retryAfter: (seconds) => {
      facts.retryAfterSeconds = Math.max(facts.retryAfterSeconds, seconds);
    },
    bearer: Promise.race([verified, session.then(toNull, toNull)]),
    opened: session.then((opened) => {
      facts.settle = () => opened.settle();
      context.session = opened;
    }),
  };
  return context as AppLoadContext;
}

const toNull = () => null;
