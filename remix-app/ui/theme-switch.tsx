import { useLocation } from "@remix-run/react";
import { Monitor, Moon, Sun } from "lucide-react";
import type { Theme } from "./theme.ts";

const choices = [
  { theme: "system", label: "System", Icon: Monitor },
  { theme: "light", label: "Light", Icon: Sun },
  { theme: "dark", label: "Dark", Icon: Moon },
] as const;

/** Renders the choice of the appearance as a plain form, so that it works without JavaScript. */
export function ThemeSwitch({ current }: { current: Theme }) {
  const { pathname, search } = useLocation();
  return (
    <form method="post" action="/theme" className="inline-flex rounded-full border border-line bg-surface p-0.5">
      <input type="hidden" name="returnTo" value={`${pathname}${search}`} />
      <fieldset className="contents">
        <legend className="sr-only">Appearance</legend>
        {choices.map(({ theme, label, Icon }) => (
          <button
            key={theme}
            type="submit"
            name="theme"
            value={theme}
            aria-pressed={theme === current}
            aria-label={label}
            title={label}
            className="grid size-7 cursor-pointer place-items-center rounded-full text-muted hover:text-ink aria-pressed:bg-sunken aria-pressed:text-ink"
          >
            <Icon aria-hidden="true" className="size-4" />
          </button>
        ))}
      </fieldset>
    </form>
  );
}
