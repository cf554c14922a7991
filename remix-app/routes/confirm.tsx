import { Form, type MetaFunction, useActionData, useLoaderData } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/server-runtime";
import { z } from "zod";
import { guardAttempt, outcomeOf } from "../abuse/attempts.ts";
import { readForm } from "../http/form.ts";
import { redirectTarget } from "../http/redirect-target.ts";
import type { RouteHandle } from "../http/route-table.ts";
import { generalFailure } from "../identity/auth-errors.ts";
import { completeSignIn } from "../identity/complete-sign-in.ts";
import { replaceForeignPassword } from "../identity/own-password.ts";
import { getUser } from "../identity/user.ts";
import { Button, buttonClass } from "../ui/button.tsx";
import { EntryPage } from "../ui/entry-page.tsx";
import { ErrorSummary } from "../ui/error-summary.tsx";
import { Notice } from "../ui/notice.tsx";

export const handle: RouteHandle = { hydrate: false };

export const meta: MetaFunction = () => [{ title: "Confirm · Gatehouse" }];

const linkSchema = z.object({
  token_hash: z.string().regex(/^[A-Za-z0-9_-]{16,256}$/),
  type: z.enum(["signup", "email", "invite", "magiclink", "recovery", "email_change"]),
  next: z.string().optional(),
});

type LinkType = z.infer<typeof linkSchema>["type"];

const words: Record<LinkType, { title: string; lead: string; button: string }> = {
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
  email_change: {
    title: "Confirm your new email",
    lead: "This changes the address of your account.",
    button: "Confirm",
  },
};

/** Shows what will happen. It verifies nothing, so that a mail scanner's visit burns nothing. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const link = linkSchema.safeParse(Object.fromEntries(new URL(request.url).searchParams));
  if (!link.success) return data({ link: null, signedInAs: null }, { status: 400 });
  const user = await getUser(context);
  return data({ link: link.data, signedInAs: user?.email ?? null });
}

export async function action({ request, context }: ActionFunctionArgs) {
  const link = linkSchema.safeParse(Object.fromEntries(await readForm(request, context)));
  if (!link.success) return data({ link: null, message: null }, { status: 400 });
  const { token_hash, type, next } = link.data;
  const attempt = await guardAttempt(context, { action: "code" });
  if (!attempt.admitted) return data({ link: link.data, message: attempt.message }, { status: attempt.status });
  const { data: verified, error } = await context.session.authClient().auth.verifyOtp({ token_hash, type });
  await attempt.settle(outcomeOf(error));
  if (error) {
    const failure = generalFailure(error);
    if (!failure) return data({ link: null, message: null }, { status: 410 });
    return data({ link: link.data, message: failure.message }, { status: failure.status });
  }
  const recovering = type === "recovery";
  const destination = recovering ? "/" : redirectTarget(next, { origin: context.origin, fallback: "/" });
  const onward = recovering ? "/reset-password" : destination;
  if (!verified.session) throw redirect(onward);
  const method = recovering ? "password_reset" : "email_link";
  const signedIn = await completeSignIn(context, { method, destination: onward });
  await replaceForeignPassword(context, { user: verified.session.user, destination });
  throw signedIn;
}

export default function ConfirmPage() {
  const { link: opened, signedInAs } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  // The form posts without the query: after it, only the action knows the link.
  const link = answer ? answer.link : opened;
  if (!link) {
    return (
      <EntryPage
        title="This link no longer works"
        lead="It was used already, it is too old, or it is incomplete. If you confirmed before, just sign in."
      >
        <div className="flex flex-wrap gap-3">
          <a href="/login" className={buttonClass("primary")}>
            Sign in
          </a>
          <a href="/signup/check-mail" className={buttonClass("secondary")}>
            Get a new link
          </a>
        </div>
      </EntryPage>
    );
  }
  const { title, lead, button } = words[link.type];
  return (
    <EntryPage title={title} lead={lead}>
      <ErrorSummary id="confirm-error" form={answer?.message ? [answer.message] : undefined} fields={[]} />
      {signedInAs ? (
        <Notice tone="warn">
          You are signed in as <strong className="font-semibold">{signedInAs}</strong>. Going on signs you in to the
          account that this link was sent to.
        </Notice>
      ) : null}
      <Form method="post" action="/auth/confirm" data-once>
        {Object.entries(link).map(([name, value]) => (
          <input key={name} type="hidden" name={name} value={value} />
        ))}
        <Button className="w-full">{button}</Button>
      </Form>
    </EntryPage>
  );
}
