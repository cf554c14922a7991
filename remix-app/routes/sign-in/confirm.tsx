import { Form, type MetaFunction, useActionData, useLoaderData } from "@remix-run/react";
import {
  type ActionFunctionArgs,
  type AppLoadContext,
  data,
  type LoaderFunctionArgs,
  redirect,
} from "@remix-run/server-runtime";
import { z } from "zod";
import { guardAttempt, outcomeOf } from "../../abuse/attempts.ts";
import { readForm } from "../../http/form.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { completeSignIn } from "../../session/complete-sign-in.ts";
import { replaceForeignPassword } from "../../session/credentials.ts";
import { confirmEmailChange, emailChangeOfLink, type LinkedEmailChange } from "../../session/email-change.ts";
import { ConfirmEmailChange, EmailChangeConfirmed } from "../../session/email-change-pages.tsx";
import { signedInAs } from "../../session/sign-in-page.ts";
import { generalFailure } from "../../supabase/auth-errors.ts";
import { Button } from "../../ui/button.tsx";
import { DeadLink } from "../../ui/dead-link.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { Notice } from "../../ui/notice.tsx";

export const handle: RouteHandle = { target: false };

export const meta: MetaFunction = () => [{ title: "Confirm · Gatehouse" }];

const linkSchema = z.object({
  token_hash: z.string().regex(/^[A-Za-z0-9_-]{16,256}$/),
  type: z.enum(["signup", "email", "invite", "magiclink", "recovery", "email_change"]),
  next: z.string().optional(),
});

type Link = z.infer<typeof linkSchema>;

const words: Record<Exclude<Link["type"], "email_change">, { title: string; lead: string; button: string }> = {
  signup: {
    title: "Confirm your email",
    lead: "One click, and your account is ready.",
    button: "Confirm and sign in",
  },
  email: { title: "Confirm your email", lead: "One click, and your account is ready.", button: "Confirm and sign in" },
  invite: {
    title: "Accept the invitation",
    lead: "This signs you in to your new account.",
    button: "Accept and sign in",
  },
  magiclink: { title: "Sign in by link", lead: "This signs you in to your account.", button: "Sign in" },
  recovery: { title: "Reset your password", lead: "Go on to choose a new one.", button: "Continue" },
};

/** What the page shows: what the link would do, or what has become of it. */
interface View {
  state: "ask" | "dead" | "half" | "changed";
  link: Link | null;
  /** Where the link is of a change of address. */
  change: LinkedEmailChange | null;
  /** Why it could not be done now, though it may be tried again. */
  message: string | null;
}

function view(state: View["state"], { link = null, change = null, message = null }: Partial<View> = {}): View {
  return { state, link, change, message };
}

/** Shows what will happen. It verifies nothing, so that a mail scanner's visit burns nothing. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const { searchParams } = new URL(request.url);
  const link = linkSchema.safeParse(Object.fromEntries(searchParams));
  const page = { signedInAs: null, mailboxUrl: context.env.MAILBOX_URL ?? null };
  // Without a query it is what comes after the form, whose answer has a status of its own.
  if (!link.success) return data({ ...page, ...view("dead") }, { status: searchParams.size > 0 ? 400 : 200 });
  if (link.data.type !== "email_change") {
    return data({ ...page, ...view("ask", { link: link.data }), signedInAs: signedInAs(context) });
  }
  const change = await emailChangeOfLink(context, link.data.token_hash);
  return change
    ? data({ ...page, ...view("ask", { link: link.data, change }) })
    : data({ ...page, ...view("dead", { link: link.data }) }, { status: 410 });
}

export async function action({ request, context }: ActionFunctionArgs) {
  const parsed = linkSchema.safeParse(Object.fromEntries(await readForm(request, context)));
  if (!parsed.success) return data(view("dead"), { status: 400 });
  const link = parsed.data;
  const { token_hash, type, next } = link;
  if (type === "email_change") return confirmAddress(context, link);
  const attempt = await guardAttempt(context, { action: "code" });
  if (!attempt.admitted) return data(view("ask", { link, message: attempt.message }), { status: attempt.status });
  const { data: verified, error } = await context.session.authClient().auth.verifyOtp({ token_hash, type });
  await attempt.settle(outcomeOf(error));
  if (error) {
    const failure = generalFailure(error);
    if (!failure) return data(view("dead", { link }), { status: 410 });
    return data(view("ask", { link, message: failure.message }), { status: failure.status });
  }
  const recovering = type === "recovery";
  const destination = recovering ? "/" : redirectTarget(next, { context, fallback: "/" });
  const onward = recovering ? "/reset-password" : destination;
  if (!verified.session) throw redirect(onward);
  const method = recovering ? "password_reset" : "email_link";
  const signedIn = await completeSignIn(context, { method, destination: onward });
  await replaceForeignPassword(context, { user: verified.session.user, destination });
  throw signedIn;
}

async function confirmAddress(context: AppLoadContext, link: Link) {
  const answer = await confirmEmailChange(context, { tokenHash: link.token_hash });
  if (answer.status === "void") return data(view("dead", { link }), { status: 410 });
  if (answer.status !== "refused") return data(view(answer.status, { link, change: answer.change }));
  const change = await emailChangeOfLink(context, link.token_hash);
  return data(view(change ? "ask" : "dead", { link, change, message: answer.message }), { status: answer.httpStatus });
}

export default function ConfirmPage() {
  const { signedInAs, mailboxUrl, ...opened } = useLoaderData<typeof loader>();
  // The form posts without the query: after it, only the action knows the link.
  const { state, link, change, message } = useActionData<typeof action>() ?? opened;
  if (!link || state === "dead") return <DeadLink type={link?.type ?? null} />;
  if (change && state !== "ask") {
    return <EmailChangeConfirmed change={change} complete={state === "changed"} mailboxUrl={mailboxUrl} />;
  }
  const fields = Object.entries(link).map(([name, value]) => (
    <input key={name} type="hidden" name={name} value={value} />
  ));
  if (link.type === "email_change") {
    return change ? (
      <ConfirmEmailChange change={change} fields={fields} message={message} />
    ) : (
      <DeadLink type={link.type} />
    );
  }
  const { title, lead, button } = words[link.type];
  return (
    <EntryPage title={title} lead={lead}>
      <ErrorSummary id="confirm-error" form={message} />
      {signedInAs ? (
        <Notice tone="warn">
          You are signed in as <strong className="font-semibold">{signedInAs}</strong>. Going on signs you in to the
          account that this link was sent to.
        </Notice>
      ) : null}
      <Form method="post" action="/auth/confirm" data-once>
        {fields}
        <Button className="w-full">{button}</Button>
      </Form>
    </EntryPage>
  );
}
