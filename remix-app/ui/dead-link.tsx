import { ButtonLink } from "./button.tsx";
import { EntryPage } from "./entry-page.tsx";

interface Words {
  title: string;
  lead: string;
  /** The alternative to signing in. */
  way: { href: string; label: string };
  /** Whether `way` is shown before "Sign in". Set if most people need `way`. */
  newLinkFirst?: boolean;
}

const unsupportedLink: Words = {
  title: "This link can’t sign you in",
  lead: "We don’t use sign-in links. Sign in as usual, or set a password if you don’t have one.",
  way: { href: "/forgot-password", label: "Set a password" },
};
const expiredLink: Words = {
  title: "This link no longer works",
  lead: "It has expired or was already used. If you’ve already confirmed your email, sign in.",
  way: { href: "/signup/check-mail", label: "Get a new link" },
};
const textsByLinkType: Record<string, Words> = {
  magiclink: unsupportedLink,
  email: unsupportedLink,
  recovery: {
    ...expiredLink,
    lead: "It has expired or was already used. Get a new one to reset your password.",
    way: { href: "/forgot-password", label: expiredLink.way.label },
    newLinkFirst: true,
  },
  email_change: {
    ...expiredLink,
    lead: "It has expired or was already used. Your email settings show whether the change is complete.",
    way: { href: "/settings/profile#email", label: "Go to email settings" },
    newLinkFirst: true,
  },
  invite: {
    ...expiredLink,
    lead: "This invitation has expired, was already used, or was replaced by a newer one. If you’ve already accepted it, sign in. Otherwise ask for a new invitation.",
    way: { href: "/signup", label: "Create an account" },
  },
};

/** Says that an emailed link no longer works. The suggested next step depends on the link's type. */
export function DeadLink({ type }: { type: string | null }) {
  const { title, lead, way, newLinkFirst } =
    (type && Object.hasOwn(textsByLinkType, type) && textsByLinkType[type]) || expiredLink;
  const ways = [{ href: "/login", label: "Sign in" }, way];
  return (
    <EntryPage title={title} lead={lead}>
      <div className="space-y-3">
        {(newLinkFirst ? ways.reverse() : ways).map(({ href, label }, index) => (
          <ButtonLink key={href} href={href} variant={index === 0 ? "primary" : "secondary"} className="w-full">
            {label}
          </ButtonLink>
        ))}
      </div>
    </EntryPage>
  );
}
