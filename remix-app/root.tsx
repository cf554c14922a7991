import {
  Form,
  isRouteErrorResponse,
  Links,
  Meta,
  type MetaFunction,
  Outlet,
  Scripts,
  ScrollRestoration,
  useLocation,
  useMatches,
  useRouteError,
} from "@remix-run/react";
import type { HeadersFunction, LinksFunction, LoaderFunctionArgs } from "@remix-run/server-runtime";
import { type ReactNode, useEffect, useState } from "react";
import { type ProblemBody, type ProblemCode, parseProblem, wordsOf } from "./http/problem.ts";
import { detour } from "./http/redirect-target.ts";
import type { RouteHandle } from "./http/route-table.ts";
import { Address } from "./ui/address.tsx";
import { useBrand, withName } from "./ui/brand.ts";
import { Button, ButtonLink, buttonClass } from "./ui/button.tsx";
import { EntryPage } from "./ui/entry-page.tsx";
import { InlineScript, useNonce } from "./ui/inline-script.tsx";
import { Link } from "./ui/link.tsx";
import { PageArrival } from "./ui/page-arrival.tsx";
import progressiveScript from "./ui/progressive.js?raw";
import searchKeyScript from "./ui/search-key.js?raw";
import sessionChannelScript from "./ui/session-channel.js?raw";
import { SessionNotice } from "./ui/session-notice.tsx";
import { type Site, useSite } from "./ui/site.ts";
import stylesUrl from "./ui/styles.css?url";
import { readTheme } from "./ui/theme.ts";
import { failSent } from "./ui/unanswered-form.ts";

export const links: LinksFunction = () => [{ rel: "stylesheet", href: stylesUrl }];

export const meta: MetaFunction<typeof loader> = ({ data, error }) => [
  { title: error ? withName(wordsFor(error).title, data) : data?.brand.name },
];

export const headers: HeadersFunction = ({ errorHeaders }) => {
  const kept = new Headers();
  for (const name of ["Allow", "Retry-After", "WWW-Authenticate"]) {
    const value = errorHeaders?.get(name);
    if (value) kept.set(name, value);
  }
  return kept;
};

export async function loader({ context }: LoaderFunctionArgs): Promise<Site> {
  const { auth } = context.session;
  const state = await context.session.state();
  return {
    theme: readTheme(context),
    requestId: context.requestId,
    brand: context.brand,
    account: auth.status === "authenticated" ? auth.claims.sub : "",
    user:
      state.status === "alive"
        ? {
            email: state.facts.user.email ?? "",
            displayName: state.facts.user.displayName,
            infrastructureAdmin: state.facts.infrastructureAdmin,
          }
        : null,
    accounts: context.session.accounts.map(({ id, email, displayName, active, requiresReauth }) => ({
      id,
      email: email ?? "",
      displayName,
      active,
      requiresReauth,
    })),
  };
}

export function Layout({ children }: { children: ReactNode }) {
  const site = useSite();
  const nonce = useNonce();
  const brand = useBrand();
  const hydrates = useMatches().some((match) => (match.handle as RouteHandle | undefined)?.hydrate);
  // Keeps the first document's value: a hydrated page stays hydrated when client-side navigation opens a page that
  // needs no script.
  const [hydrated] = useState(hydrates);
  const theme = site?.theme ?? "system";
  return (
    <html
      lang="en"
      data-theme={theme}
      data-account={site?.account ?? ""}
      data-brand={JSON.stringify(brand)}
      // search-key.js adds an attribute before hydration.
      suppressHydrationWarning
    >
      <head>
        <meta charSet="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content={theme === "system" ? "light dark" : theme} />
        <Meta />
        <Links />
        <link rel="icon" href={brand.icon.href} type={brand.icon.type} />
        {brand.accent ? <link rel="stylesheet" href={brand.accent} /> : null}
      </head>
      <body>
        {children}
        <SessionNotice />
        <PageArrival />
        {hydrated ? (
          <>
            <ScrollRestoration nonce={nonce} />
            <Scripts nonce={nonce} />
          </>
        ) : (
          <InlineScript source={progressiveScript} />
        )}
        <InlineScript source={sessionChannelScript} />
        <InlineScript source={searchKeyScript} />
      </body>
    </html>
  );
}

export default function App() {
  return <Outlet />;
}

interface ErrorWords {
  title: string;
  detail: string;
  /** The problem, if the error is one of ours; otherwise null. */
  known: ProblemBody | null;
}

function wordsFor(error: unknown): ErrorWords {
  const known = isRouteErrorResponse(error) ? parseProblem(error.data) : null;
  if (known) {
    return { title: known.page ? "You switched accounts" : known.title, detail: known.detail, known };
  }
  // A client-side navigation fails if the device is offline. On the server, this check is always false, because Node
  // has no `onLine`.
  if (globalThis.navigator?.onLine === false) {
    return { title: "You’re offline", detail: "Try again once this device is connected.", known };
  }
  const missing = isRouteErrorResponse(error) && error.status === 404;
  return { ...wordsOf(missing ? "NOT_FOUND" : "INTERNAL"), known };
}

/** The page that resolves each problem. The home page would only show the same problem again. */
const waysOn: Partial<Record<ProblemCode, string>> = { MFA_REQUIRED: "/mfa", STEP_UP_REQUIRED: "/step-up" };

/** Renders every failure as a page: what happened, what to do, and the request id to quote. */
export function ErrorBoundary() {
  const error = useRouteError();
  const site = useSite();
  const { title, detail, known } = wordsFor(error);
  const requestId = known?.requestId ?? site?.requestId;
  const failed = !isRouteErrorResponse(error) || error.status >= 500;
  useEffect(() => {
    if (failed) failSent();
  }, [failed]);
  return (
    <EntryPage title={title} lead={<Address>{detail}</Address>} themeSwitch={false}>
      <WayOn problem={known} failed={failed} />
      {requestId ? (
        <p className="text-muted text-small">
          Request ID <code className="block break-all font-mono">{requestId}</code>
        </p>
      ) : null}
    </EntryPage>
  );
}

/**
 * @param props.failed whether the request failed for a reason other than a refusal (4xx), so that a retry may succeed
 */
function WayOn({ problem, failed }: { problem: ProblemBody | null; failed: boolean }) {
  const { pathname, search } = useLocation();
  // The not-found route also shows errors of requests to other URLs. Trying again would load this URL and not repeat
  // the failed request.
  const elsewhere = useMatches().at(-1)?.id === "routes/not-found";
  const wayOn = problem ? waysOn[problem.code] : undefined;
  if (wayOn) {
    return (
      <ButtonLink href={detour(wayOn, `${pathname}${search}`)} variant="primary">
        Continue
      </ButtonLink>
    );
  }
  if (problem?.page) {
    return (
      <div className="flex flex-wrap gap-3">
        <ButtonLink href={problem.page} variant="primary">
          Open the page again
        </ButtonLink>
        <ButtonLink href={detour("/accounts", problem.page)}>Choose an account</ButtonLink>
      </div>
    );
  }
  if (problem?.code === "REAUTH_REQUIRED") {
    return (
      <Form method="post" action="/logout" reloadDocument>
        <Button variant="secondary">Sign out</Button>
      </Form>
    );
  }
  return (
    <div className="flex flex-wrap gap-3">
      {failed && !elsewhere ? (
        // Navigates on the client. A page load would lose the values of a form whose request got no answer, because
        // they are kept only in memory.
        <Link to={`${pathname}${search}`} className={buttonClass("primary")}>
          Try again
        </Link>
      ) : null}
      <ButtonLink href="/">Go to home page</ButtonLink>
    </div>
  );
}
