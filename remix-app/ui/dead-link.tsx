import { ButtonLink } from "./button.tsx";
import { EntryPage } from "./entry-page.tsx";

const notOurs = {
  title: "This link does not sign you in",
  lead: "We do not sign people in by a link. Sign in on our page, or choose a new password if you have none.",
  way: { href: "/forgot-password", label: "Choose a new password" },
};
const dead = {
  title: "This link no longer works",
  lead: "It was used already, it is too old, or it is incomplete. If you confirmed before, just sign in.",
  way: { href: "/signup/check-mail", label: "Get a new link" },
};
const byType: Record<string, typeof dead> = {
  magiclink: notOurs,
  email: notOurs,
  recovery: { ...dead, way: { href: "/forgot-password", label: dead.way.label } },
  email_change: { ...dead, way: { href: "/settings/profile#email", label: "See your email settings" } },
  invite: {
    ...dead,
    lead: "It was used already, it is too old, or a newer one was sent. Sign in if you accepted it, or ask for another invitation.",
    way: { href: "/signup", label: "Create an account" },
  },
};

/** Says that a mailed link does nothing any more, and what to do next for its kind. */
export function DeadLink({ type }: { type: string | null }) {
  const { title, lead, way } = (type && Object.hasOwn(byType, type) && byType[type]) || dead;
  return (
    <EntryPage title={title} lead={lead}>
      <div className="flex flex-wrap gap-3">
        <ButtonLink href="/login" variant="primary">
          Sign in
        </ButtonLink>
        <ButtonLink href={way.href}>{way.label}</ButtonLink>
      </div>
    </EntryPage>
  );
}
