import type { ReactElement } from "react";

type Look = { className: string };

/**
 * Lucide's icons (ISC licence), as far as our pages have them; words beside each say what it means. The library's own
 * components put an icon together anew each time, which took a tenth of a page with a table; these are as they are.
 * `icons.test.tsx` holds them to the library.
 */
function drawn(className: string, drawing: ReactElement) {
  return (
    <svg
      xmlns="http://www.w3.org/2000/svg"
      width={24}
      height={24}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth={2}
      strokeLinecap="round"
      strokeLinejoin="round"
      className={className}
      aria-hidden="true"
    >
      {drawing}
    </svg>
  );
}

export const ArrowDown = ({ className }: Look) =>
  drawn(
    className,
    <>
      <path d="M12 5v14" />
      <path d="m19 12-7 7-7-7" />
    </>,
  );
export const ArrowUp = ({ className }: Look) =>
  drawn(
    className,
    <>
      <path d="m5 12 7-7 7 7" />
      <path d="M12 19V5" />
    </>,
  );
export const Check = ({ className }: Look) => drawn(className, <path d="M20 6 9 17l-5-5" />);
export const ChevronDown = ({ className }: Look) => drawn(className, <path d="m6 9 6 6 6-6" />);
export const ChevronRight = ({ className }: Look) => drawn(className, <path d="m9 18 6-6-6-6" />);
export const CircleAlert = ({ className }: Look) =>
  drawn(
    className,
    <>
      <circle cx="12" cy="12" r="10" />
      <line x1="12" x2="12" y1="8" y2="12" />
      <line x1="12" x2="12.01" y1="16" y2="16" />
    </>,
  );
export const CircleCheck = ({ className }: Look) =>
  drawn(
    className,
    <>
      <circle cx="12" cy="12" r="10" />
      <path d="m16 9-5.5 5.5L8 12" />
    </>,
  );
export const Copy = ({ className }: Look) =>
  drawn(
    className,
    <>
      <rect width="14" height="14" x="8" y="8" rx="2" ry="2" />
      <path d="M4 16c-1.1 0-2-.9-2-2V4c0-1.1.9-2 2-2h10c1.1 0 2 .9 2 2" />
    </>,
  );
export const Info = ({ className }: Look) =>
  drawn(
    className,
    <>
      <circle cx="12" cy="12" r="10" />
      <path d="M12 16v-4" />
      <path d="M12 8h.01" />
    </>,
  );
export const KeyRound = ({ className }: Look) =>
  drawn(
    className,
    <>
      <path d="M2.586 17.414A2 2 0 0 0 2 18.828V21a1 1 0 0 0 1 1h3a1 1 0 0 0 1-1v-1a1 1 0 0 1 1-1h1a1 1 0 0 0 1-1v-1a1 1 0 0 1 1-1h.172a2 2 0 0 0 1.414-.586l.814-.814a6.5 6.5 0 1 0-4-4z" />
      <circle cx="16.5" cy="7.5" r=".5" fill="currentColor" />
    </>,
  );
export const Minus = ({ className }: Look) => drawn(className, <path d="M5 12h14" />);
export const Monitor = ({ className }: Look) =>
  drawn(
    className,
    <>
      <rect width="20" height="14" x="2" y="3" rx="2" />
      <line x1="8" x2="16" y1="21" y2="21" />
      <line x1="12" x2="12" y1="17" y2="21" />
    </>,
  );
export const Moon = ({ className }: Look) =>
  drawn(
    className,
    <path d="M20.985 12.486a9 9 0 1 1-9.473-9.472c.405-.022.617.46.402.803a6 6 0 0 0 8.268 8.268c.344-.215.825-.004.803.401" />,
  );
export const Plus = ({ className }: Look) =>
  drawn(
    className,
    <>
      <path d="M5 12h14" />
      <path d="M12 5v14" />
    </>,
  );
export const Smartphone = ({ className }: Look) =>
  drawn(
    className,
    <>
      <rect width="14" height="20" x="5" y="2" rx="2" ry="2" />
      <path d="M12 18h.01" />
    </>,
  );
export const Sun = ({ className }: Look) =>
  drawn(
    className,
    <>
      <circle cx="12" cy="12" r="4" />
      <path d="M12 2v2" />
      <path d="M12 20v2" />
      <path d="m4.93 4.93 1.41 1.41" />
      <path d="m17.66 17.66 1.41 1.41" />
      <path d="M2 12h2" />
      <path d="M20 12h2" />
      <path d="m6.34 17.66-1.41 1.41" />
      <path d="m19.07 4.93-1.41 1.41" />
    </>,
  );
export const TriangleAlert = ({ className }: Look) =>
  drawn(
    className,
    <>
      <path d="m21.73 18-8-14a2 2 0 0 0-3.48 0l-8 14A2 2 0 0 0 4 21h16a2 2 0 0 0 1.73-3" />
      <path d="M12 9v4" />
      <path d="M12 17h.01" />
    </>,
  );
