import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { getAttemptOutcome, guardAttempt } from "../../abuse/attempts.ts";
import { readForm } from "../../http/form.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { completeSignIn } from "../../session/complete-sign-in.ts";
import { storedSession } from "../../session/cookies.ts";
import { completeConfirmation, removeForeignPassword } from "../../session/credentials.ts";
import {
  confirmEmailChange,
  emailChangeOfLink,
  findMailedLink,
  type LinkedEmailChange,
} from "../../session/email-change.ts";
import {
  ConfirmEmailChange,
  EmailChangeConfirmed,
  type MaskedEmailChange,
  maskEmailChange,
} from "../../session/email-change-pages.tsx";
import { emailOfMailedLink, linkSchema, type MailedLink, maskEmail } from "../../session/mailed-link.ts";
import { activeEmail } from "../../session/sign-in-page.ts";
import { mapGeneralError } from "../../supabase/auth-errors.ts";
import { OtherAccountNotice } from "../../ui/account-choices.tsx";
import { EmailAddress } from "../../ui/address.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button } from "../../ui/button.tsx";
import { DeadLink } from "../../ui/dead-link.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";

export const handle: RouteHandle = { target: false };

export const meta = pageTitle("Confirm");

/** The page's texts for each kind of link. `who` is the masked account. */
const linkTexts: Record<MailedLink["type"], { title: string; lead: (who: string) => string; button: string }> = {
  signup: {
    title: "Confirm your email",
    lead: (who) => `You’ll confirm ${who} and be signed in.`,
    button: "Confirm and sign in",
  },
  invite: {
    title: "Accept the invitation",
    lead: (who) => `You’ll be signed in to your new account, ${who}.`,
    button: "Accept and sign in",
  },
  recovery: {
    title: "Reset your password",
    lead: (who) => `You’ll be signed in as ${who} to choose a new password.`,
    button: "Continue",
  },
  email_change: {
    title: "Confirm your new email",
    lead: () => "This confirms your new email.",
    button: "Confirm",
  },
};

/** The page's state: what the link would do, or what happened to it. */
interface View {
  /** `later`: the link cannot be looked up now, and `message` says why. */
  state: "ask" | "later" | "dead" | "half" | "changed";
  /** The raw `type` query parameter, for links whose kind the page doesn't recognize. */
  type: string | null;
  link: MailedLink | null;
  /** The masked email of the link's account, or null if it is unknown. */
  account: string | null;
  /** The pending email change that the link confirms, or null. */
  change: MaskedEmailChange | null;
  /** The active account of this browser, if it isn't the link's account. */
  otherAccount: string | null;
  /** Why the link cannot be used right now. A retry may succeed. */
  message: string | null;
}

function createView(state: View["state"], known: Partial<View> = {}): View {
  const { link = null } = known;
  return { type: null, account: null, change: null, otherAccount: null, message: null, ...known, state, link };
}

/** Shows what the link would do. Verifies nothing, so that a mail scanner's visit does not use the link up. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const { searchParams } = new URL(request.url);
  const parsed = linkSchema.safeParse(Object.fromEntries(searchParams));
  const page = { mailboxUrl: context.env.MAILBOX_URL ?? null };
  // After a submit, the query is missing, because the form posts to a URL without it.
  if (!parsed.success) {
    const dead = createView("dead", { type: searchParams.get("type") });
    return data({ ...page, ...dead }, { status: searchParams.size > 0 ? 400 : 200 });
  }
  const link = parsed.data;
  // Opening the page counts as an attempt, because a page that tells valid links from others could be used to guess
  // them.
  const attempt = await guardAttempt(context, { action: "code" });
  if (!attempt.admitted) {
    return data({ ...page, ...createView("later", { link, message: attempt.message }) }, { status: attempt.status });
  }
  const read = await findMailedLink(context, { link, attempt });
  const found = read && factsOf(context, read);
  return found
    ? data({ ...page, ...createView("ask", { link, ...found }) })
    : data({ ...page, ...createView("dead", { type: link.type }) }, { status: 410 });
}

type LinkFacts = Pick<View, "account" | "change" | "otherAccount">;

/** Returns the facts about a link that the page may show, or null if the link was used or replaced. */
async function readLinkFacts(context: AppLoadContext, link: MailedLink): Promise<LinkFacts | null> {
  const change = link.type === "email_change" ? await emailChangeOfLink(context, link.token_hash) : null;
  const email = change ? change.email : await emailOfMailedLink(context, link);
  return change || email !== null ? factsOf(context, { email, change }) : null;
}

function factsOf(
  context: AppLoadContext,
  { email, change }: { email: string | null; change: LinkedEmailChange | null },
): LinkFacts {
  const active = activeEmail(context);
  return {
    account: email === null ? null : maskEmail(email),
    change: change && maskEmailChange(change),
    otherAccount: active === email?.toLowerCase() ? null : active,
  };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const form = await readForm(request, context);
  const parsed = linkSchema.safeParse(Object.fromEntries(form));
  if (!parsed.success) return data(createView("dead", { type: String(form.get("type") ?? "") }), { status: 400 });
  const link = parsed.data;
  const { token_hash, type, next } = link;
  if (type === "email_change") return confirmAddress(context, link);
  const attempt = await guardAttempt(context, { action: "code" });
  if (!attempt.admitted) return data(createView("ask", { link, message: attempt.message }), { status: attempt.status });
  await removeForeignPassword(context, link);
  const { data: verified, error } = await context.session.anonymousClient().auth.verifyOtp({ token_hash, type });
  await attempt.settle(getAttemptOutcome(error));
  if (error) {
    const failure = mapGeneralError(error);
    if (!failure) return data(createView("dead", { type }), { status: 410 });
    const found = await readLinkFacts(context, link);
    return data(createView("ask", { link, ...found, message: failure.message }), { status: failure.status });
  }
  const recovering = type === "recovery";
  const destination = recovering ? "/" : redirectTarget(next, { context, fallback: "/" });
  const onward = recovering ? "/reset-password" : destination;
  if (!verified.session) throw redirect(onward);
  const session = storedSession.parse(verified.session);
  const method = recovering ? "password_reset" : "email_link";
  const response = await completeSignIn(context, { session, method, destination: onward });
  await completeConfirmation(context, { user: verified.session.user, destination });
  throw response;
}

async function confirmAddress(context: AppLoadContext, link: MailedLink) {
  const answer = await confirmEmailChange(context, { tokenHash: link.token_hash });
  const { type } = link;
  if (answer.status === "void") return data(createView("dead", { type }), { status: 410 });
  if (answer.status !== "refused")
    return data(createView(answer.status, { link, change: maskEmailChange(answer.change) }));
  const found = await readLinkFacts(context, link);
  const shown = found ? createView("ask", { link, ...found, message: answer.message }) : createView("dead", { type });
  return data(shown, { status: answer.httpStatus });
}

export default function ConfirmPage() {
  const { mailboxUrl, ...opened } = useLoaderData<typeof loader>();
  // After a submit, only the action knows the link, because the form posts to a URL without the query.
  const { state, type, link, account, change, otherAccount, message } = useActionData<typeof action>() ?? opened;
  if (!link || state === "dead") return <DeadLink type={type} />;
  if (change && state !== "ask") {
    return <EmailChangeConfirmed change={change} complete={state === "changed"} mailboxUrl={mailboxUrl} />;
  }
  const fields = Object.entries(link).map(([name, value]) => (
    <input key={name} type="hidden" name={name} value={value} />
  ));
  if (change) {
    return <ConfirmEmailChange change={change} fields={fields} message={message} otherAccount={otherAccount} />;
  }
  const { title, lead, button } = linkTexts[link.type];
  return (
    <EntryPage
      title={title}
      lead={
        state === "later" ? undefined : (
          <EmailAddress whole>{lead(account ?? "the account this link was sent to")}</EmailAddress>
        )
      }
    >
      <ErrorSummary id="confirm-error" form={message} />
      {otherAccount ? <OtherAccountNotice visitor={otherAccount} other={account} /> : null}
      {state === "later" ? (
        <p>Open the link again later. It still works.</p>
      ) : (
        <form method="post" action="/auth/confirm">
          {fields}
          <Button className="w-full">{button}</Button>
        </form>
      )}
      {state === "later" ? null : (
        <p className="text-muted">
          {link.type === "recovery"
            ? "If you didn’t ask to reset your password, close this page. Nothing has changed."
            : "If you didn’t expect this email, close this page. Nothing has changed."}
        </p>
      )}
    </EntryPage>
  );
}
