import { useLocation } from "@remix-run/react";
import { ChevronDown, Plus } from "lucide-react";
import { AccountInitial, AccountNames, ActiveMark, type ListedAccount, signInAgainPath } from "./account-choices.tsx";
import { AccountForm } from "./account-form.tsx";
import { consoleLink, type SiteUser } from "./site.ts";
import type { Theme } from "./theme.ts";
import { ThemeSwitch } from "./theme-switch.tsx";

const menuId = "account-menu";
const part = "border-line border-b p-1.5";

export interface AccountMenuProps {
  user: SiteUser;
  /** The browser's accounts, the active one first. */
  accounts: readonly (ListedAccount & { active: boolean })[];
  theme: Theme;
}

/** Shows the active account with its actions, in the browser's own popover, so that it works without JavaScript. */
export function AccountMenu({ user, accounts, theme }: AccountMenuProps) {
  const { pathname, search } = useLocation();
  const here = `${pathname}${search}`;
  const console = consoleLink(user);
  const others = accounts.filter(({ active }) => !active);
  return (
    <>
      <button
        type="button"
        // React 18 has no camel-case name for this attribute.
        {...{ popovertarget: menuId }}
        className="flex h-9 min-w-0 cursor-pointer items-center gap-2 rounded-button pr-1.5 pl-1 hover:bg-sunken"
      >
        <AccountInitial account={user} />
        <span className="hidden max-w-48 truncate font-medium sm:block">{user.displayName ?? user.email}</span>
        <span className="sr-only">Account menu</span>
        <ChevronDown aria-hidden="true" className="size-4 shrink-0 text-muted" />
      </button>
      <div
        id={menuId}
        {...{ popover: "auto" }}
        className="fixed inset-auto top-13 right-4 m-0 max-h-[calc(100dvh-4.5rem)] w-80 max-w-[calc(100vw-2rem)] overflow-y-auto rounded-card border border-line bg-raised p-0 text-ink shadow-lg"
      >
        <div className={part}>
          <ul aria-label="Accounts">
            <li className="flex items-center gap-2.5 px-2.5 py-1.5" aria-current="true">
              <AccountInitial account={user} />
              <AccountNames account={user} />
              <ActiveMark />
            </li>
            {others.map((account) => (
              <li key={account.id}>
                <OtherAccount account={account} here={here} />
              </li>
            ))}
          </ul>
          <a href="/add-account" className="menu-item">
            <span className="grid size-7 shrink-0 place-items-center">
              <Plus aria-hidden="true" className="size-4" />
            </span>
            Add another account
          </a>
        </div>
        <div className="flex items-center justify-between gap-4 border-line border-b px-4 py-3">
          <span>Appearance</span>
          <ThemeSwitch current={theme} />
        </div>
        <div className={part}>
          <a href="/settings/profile" className="menu-item">
            Settings
          </a>
          {others.length > 0 ? (
            <a href="/accounts" className="menu-item">
              Manage accounts
            </a>
          ) : null}
          {/* On wider screens, the header shows these links. */}
          <a href="/docs" className="menu-item sm:hidden">
            Docs
          </a>
          {console ? (
            <a href={console.href} className="menu-item sm:hidden">
              {console.label}
            </a>
          ) : null}
        </div>
        <div className="p-1.5">
          {others.length > 0 ? (
            <AccountForm action="/accounts">
              <input type="hidden" name="intent" value="sign_out" />
              <button type="submit" className="menu-item">
                Sign out of this account
              </button>
            </AccountForm>
          ) : null}
          <form method="post" action="/logout">
            <button type="submit" className="menu-item">
              {others.length > 0 ? "Sign out of all accounts" : "Sign out"}
            </button>
          </form>
        </div>
      </div>
    </>
  );
}

function OtherAccount({ account, here }: { account: ListedAccount; here: string }) {
  if (account.requiresReauth) {
    return (
      <a href={signInAgainPath(account, "/")} className="menu-item">
        <AccountInitial account={account} />
        <AccountNames account={account} note="Signed out" />
      </a>
    );
  }
  return (
    <form method="post" action="/accounts">
      <input type="hidden" name="accountId" value={account.id} />
      <input type="hidden" name="currentRoute" value={here} />
      <button type="submit" className="menu-item">
        <AccountInitial account={account} />
        <AccountNames account={account} verb="Switch to" />
      </button>
    </form>
  );
}
