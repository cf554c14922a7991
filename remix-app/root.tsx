import type { HeadersFunction, LinksFunction, LoaderFunctionArgs } from "@remix-run/node";
import {
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
import type { ReactNode } from "react";
import { type ProblemBody, type ProblemCode, parseProblem, problemText } from "./http/problem.ts";
import { addReturnUrl } from "./http/redirect-target.ts";
import { isPrefetch } from "./http/request-facts.ts";
import type { RouteHandle } from "./http/route-table.ts";
import { getUser } from "./session/user.ts";
import { EmailAddress } from "./ui/address.tsx";
import { appendProductName, useBrand } from "./ui/brand.ts";
import { Button, ButtonLink } from "./ui/button.tsx";
import enhanceUrl from "./ui/enhance.js?url";
import { EntryPage } from "./ui/entry-page.tsx";
import { RequestReference } from "./ui/failed-request.tsx";
import { InlineScript, useNonce } from "./ui/inline-script.tsx";
import searchKeyScript from "./ui/search-key.js?raw";
import sessionChannelScript from "./ui/session-channel.js?raw";
import { SessionNotice } from "./ui/session-notice.tsx";
import { type Site, useSite } from "./ui/site.ts";
import stylesUrl from "./ui/styles.css?url";
import { readTheme } from "./ui/theme.ts";
import zodWithoutEval from "./ui/zod-without-eval.js?raw";

export const links: LinksFunction = () => [{ rel: "stylesheet", href: stylesUrl }];

export const meta: MetaFunction<typeof loader> = ({ data, error }) => [
  { title: error ? appendProductName(describeError(error).title, data) : data?.brand.name },
];

export const headers: HeadersFunction = ({ errorHeaders }) => {
  const pageHeaders = new Headers();
  for (const name of ["Allow", "Retry-After", "WWW-Authenticate"]) {
    const value = errorHeaders?.get(name);
    if (value) pageHeaders.set(name, value);
  }
  return pageHeaders;
};

export async function loader({ request, context }: LoaderFunctionArgs): Promise<Site> {
  const { auth } = context.session;
  const [state, user] = await Promise.all([context.session.state(), getUser(context).catch(() => null)]);
  return {
    theme: readTheme(context),
    requestId: context.requestId,
    brand: context.brand,
    account: auth.status === "authenticated" ? auth.claims.sub : "",
    session: user ? `${user.sessionId} ${user.aal} ${user.mfa.required} ${user.mfa.satisfied}` : "",
    prefetchedAt: isPrefetch(request) ? new Date().toISOString() : null,
    user:
      state.status === "alive"
        ? {
            email: state.facts.user.email ?? "",
            displayName: state.facts.user.displayName,
            consoleRole: state.facts.consoleRole,
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

/** Removes the lines that are comments, because every page contains the scripts. */
function withoutComments(source: string): string {
  return source.replaceAll(/^ *\/\/.*\n/gm, "");
}

const sessionChannel = withoutComments(sessionChannelScript);
const searchKey = withoutComments(searchKeyScript);
const zodConfig = withoutComments(zodWithoutEval);

export function Layout({ children }: { children: ReactNode }) {
  const site = useSite();
  const nonce = useNonce();
  const brand = useBrand();
  const hydrates = useMatches().some((match) => (match.handle as RouteHandle | undefined)?.hydrate);
  const theme = site?.theme ?? "system";
  return (
    <html
      lang="en"
      data-theme={theme}
      data-account={site?.account ?? ""}
      data-session={site?.session ?? ""}
      data-unconfirmed={site?.prefetchedAt ?? undefined}
      data-brand={JSON.stringify(brand)}
      // The scripts below change attributes before hydration.
      suppressHydrationWarning
    >
      <head>
        <meta charSet="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <InlineScript source={sessionChannel} early />
        {hydrates ? <InlineScript source={zodConfig} early /> : null}
        <meta name="color-scheme" content={theme === "system" ? "light dark" : theme} />
        <Meta />
        <Links />
        <link rel="icon" href={brand.icon.href} type={brand.icon.type} />
        {brand.accent ? <link rel="stylesheet" href={brand.accent} /> : null}
      </head>
      <body>
        {children}
        <SessionNotice />
        {hydrates ? (
          <>
            <ScrollRestoration nonce={nonce} />
            <Scripts nonce={nonce} />
          </>
        ) : null}
        <script type="module" src={enhanceUrl} nonce={nonce} suppressHydrationWarning />
        <InlineScript source={searchKey} />
      </body>
    </html>
  );
}

export default function App() {
  return <Outlet />;
}

interface ErrorText {
  title: string;
  detail: string;
  /** The problem, if the error is one of ours; otherwise null. */
  known: ProblemBody | null;
}

function describeError(error: unknown): ErrorText {
  const known = isRouteErrorResponse(error) ? parseProblem(error.data) : null;
  if (known) {
    return { title: known.page ? "You switched accounts" : known.title, detail: known.detail, known };
  }
  const missing = isRouteErrorResponse(error) && error.status === 404;
  return { ...problemText(missing ? "NOT_FOUND" : "INTERNAL"), known };
}

/** The page that resolves each problem. The home page would only show the same problem again. */
const nextPathByProblem: Partial<Record<ProblemCode, string>> = { MFA_REQUIRED: "/mfa", STEP_UP_REQUIRED: "/step-up" };

/** Renders every failure as a page: what happened, what to do, and the request id to quote. */
export function ErrorBoundary() {
  const error = useRouteError();
  const site = useSite();
  const { title, detail, known } = describeError(error);
  const requestId = known?.requestId ?? site?.requestId;
  const failed = !isRouteErrorResponse(error) || error.status >= 500;
  return (
    <EntryPage title={title} lead={<EmailAddress>{detail}</EmailAddress>} themeSwitch={false}>
      <NextStep problem={known} failed={failed} />
      {requestId ? <RequestReference requestId={requestId} /> : null}
    </EntryPage>
  );
}

/**
 * @param props.failed whether the request failed for a reason other than a refusal (4xx), so that a retry may succeed
 */
function NextStep({ problem, failed }: { problem: ProblemBody | null; failed: boolean }) {
  const { pathname, search } = useLocation();
  // The not-found route also shows errors of requests to other URLs. Trying again would load this URL and not repeat
  // the failed request.
  const elsewhere = useMatches().at(-1)?.id === "routes/not-found";
  const wayOn = problem ? nextPathByProblem[problem.code] : undefined;
  if (wayOn) {
    return (
      <ButtonLink href={addReturnUrl(wayOn, `${pathname}${search}`)} variant="primary">
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
        <ButtonLink href={addReturnUrl("/accounts", problem.page)}>Choose an account</ButtonLink>
      </div>
    );
  }
  if (problem?.code === "REAUTH_REQUIRED") {
    return (
      <form method="post" action="/logout">
        <Button variant="secondary">Sign out</Button>
      </form>
    );
  }
  return (
    <div className="flex flex-wrap gap-3">
      {failed && !elsewhere ? (
        <ButtonLink href={`${pathname}${search}`} variant="primary">
          Try again
        </ButtonLink>
      ) : null}
      <ButtonLink href="/">Go to home page</ButtonLink>
    </div>
  );
}
