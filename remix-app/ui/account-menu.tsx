import { Form } from "@remix-run/react";
import { ChevronDown } from "lucide-react";
import type { Theme } from "./theme.ts";
import { ThemeSwitch } from "./theme-switch.tsx";

const menuId = "account-menu";

/** Who is signed in, and what they can do about it. The browser's own popover, so that it needs no script. */
export function AccountMenu({
  email,
  displayName,
  theme,
}: {
  email: string;
  displayName: string | null;
  theme: Theme;
}) {
  const name = displayName ?? email;
  return (
    <>
      <button
        type="button"
        // React 18 knows this attribute by no camel-case name.
        {...{ popovertarget: menuId }}
        className="flex h-9 min-w-0 cursor-pointer items-center gap-2 rounded-button pr-1.5 pl-1 hover:bg-sunken"
      >
        <span
          aria-hidden="true"
          className="grid size-7 shrink-0 place-items-center rounded-full bg-accent-soft font-semibold text-accent text-small uppercase"
        >
          {name.slice(0, 1)}
        </span>
        <span className="hidden max-w-48 truncate font-medium sm:block">{name}</span>
        <span className="sr-only">Account menu</span>
        <ChevronDown aria-hidden="true" className="size-4 shrink-0 text-muted" />
      </button>
      <div
        id={menuId}
        {...{ popover: "auto" }}
        className="fixed inset-auto top-13 right-4 m-0 w-72 max-w-[calc(100vw-2rem)] rounded-card border border-line bg-raised p-0 text-ink shadow-lg lg:right-[max(1rem,calc(50vw-31rem))]"
      >
        <div className="border-line border-b px-4 py-3">
          {displayName ? <p className="truncate font-medium">{displayName}</p> : null}
          <p className="truncate text-muted">{email}</p>
        </div>
        <div className="flex items-center justify-between gap-4 border-line border-b px-4 py-3">
          <span>Appearance</span>
          <ThemeSwitch current={theme} />
        </div>
        <div className="border-line border-b p-1.5">
          {/* Its page has scripts of its own, so the browser itself goes there. */}
          <a
            href="/settings/profile"
            className="flex min-h-9 items-center rounded-button px-2.5 font-medium hover:bg-sunken"
          >
            Settings
          </a>
        </div>
        <Form method="post" action="/logout" reloadDocument className="p-1.5">
          <button
            type="submit"
            className="flex min-h-9 w-full cursor-pointer items-center rounded-button px-2.5 text-left font-medium hover:bg-sunken"
          >
            Sign out
          </button>
        </Form>
      </div>
    </>
  );
}
