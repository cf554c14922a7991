/** The accent's tokens in one colour scheme, as `#rrggbb`. */
export interface AccentScheme {
  accent: string;
  /** For hovered elements. */
  strong: string;
  /** The colour of text on the accent. */
  on: string;
  /** A tinted background. */
  soft: string;
}

type Oklch = { l: number; c: number; h: number };
type Rgb = [number, number, number];

/** WCAG 2.2, success criterion 1.4.3. */
const minContrast = 4.5;
/**
 * The backgrounds on which text in the accent colour appears, from `ui/styles.css`. Excludes the soft background, which
 * is derived from the accent.
 */
const backgrounds = {
  light: [
    { l: 1, c: 0, h: 0 },
    { l: 0.962, c: 0.005, h: 235 },
  ],
  dark: [{ l: 0.25, c: 0.015, h: 235 }],
};

/** Derives the tokens of both schemes from one colour, which is the accent of the light scheme. */
export function accentSchemes(hex: string): { light: AccentScheme; dark: AccentScheme } {
  const { l, c, h } = toOklch(hex);
  const tint = (lightness: number, chroma: number) => hexOfOklch({ l: lightness, c: Math.min(c, chroma), h });
  return {
    light: { accent: hex, strong: hexOfOklch({ l: l - 0.065, c, h }), on: "#ffffff", soft: tint(0.957, 0.017) },
    dark: { accent: tint(0.775, 0.13), strong: tint(0.835, 0.12), on: tint(0.195, 0.03), soft: tint(0.272, 0.036) },
  };
}

/** Returns why text in a colour is hard to read on a light page, and which shade works; undefined if it is readable. */
export function accentFault(hex: string): string | undefined {
  const contrast = lightContrast(hex);
  if (contrast >= minContrast) return undefined;
  const { c, h, l } = toOklch(hex);
  let darker = hex;
  for (let lightness = l; lightContrast(darker) < minContrast; ) {
    lightness -= 0.005;
    darker = hexOfOklch({ l: lightness, c, h });
  }
  return `${hex} is too light: text has a contrast of ${contrast.toFixed(1)}:1 and needs ${minContrast}:1. ${darker} works`;
}

/**
 * Returns the lowest contrast of the dark scheme's accent with a background. It is above {@link minContrast} for
 * every hue.
 */
export function darkContrast(hex: string): number {
  const { accent, soft, on } = accentSchemes(hex).dark;
  return Math.min(
    ...[...backgrounds.dark.map(hexOfOklch), soft, on].map((background) => contrastOf(accent, background)),
  );
}

function lightContrast(hex: string): number {
  const { soft } = accentSchemes(hex).light;
  return Math.min(...[...backgrounds.light.map(hexOfOklch), soft].map((background) => contrastOf(hex, background)));
}

/** Computes the contrast ratio of WCAG 2.2. */
export function contrastOf(one: string, other: string): number {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function luminance(hex: string): number {
  const [r, g, b] = hexToLinearRgb(hex);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function hexToLinearRgb(hex: string): Rgb {
  const channel = (at: number) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return [channel(1), channel(3), channel(5)];
}

/** Converts sRGB to OKLCH (CSS Color 4, section 10, sample code for color conversions). */
function toOklch(hex: string): Oklch {
  const [r, g, b] = hexToLinearRgb(hex);
  const long = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const medium = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const short = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  const l = 0.2104542553 * long + 0.793617785 * medium - 0.0040720468 * short;
  const x = 1.9779984951 * long - 2.428592205 * medium + 0.4505937099 * short;
  const y = 0.0259040371 * long + 0.7827717662 * medium - 0.808675766 * short;
  return { l, c: Math.hypot(x, y), h: (Math.atan2(y, x) * 180) / Math.PI };
}

/** Converts a colour to sRGB, and reduces its chroma until sRGB can represent the colour. */
export function hexOfOklch({ l, c, h }: Oklch): string {
  let chroma = c;
  while (chroma > 0 && oklchToLinearRgb({ l, c: chroma, h }).some((value) => value < -0.0005 || value > 1.0005)) {
    chroma = Math.max(0, chroma - 0.002);
  }
  const channels = oklchToLinearRgb({ l, c: chroma, h }).map((value) => {
    const bounded = Math.min(1, Math.max(0, value));
    const encoded = bounded <= 0.0031308 ? bounded * 12.92 : 1.055 * bounded ** (1 / 2.4) - 0.055;
    return Math.round(encoded * 255)
      .toString(16)
      .padStart(2, "0");
  });
  return `#${channels.join("")}`;
}

function oklchToLinearRgb({ l, c, h }: Oklch): Rgb {
  const angle = (h * Math.PI) / 180;
  const [x, y] = [c * Math.cos(angle), c * Math.sin(angle)];
  const long = (l + 0.3963377774 * x + 0.2158037573 * y) ** 3;
  const medium = (l - 0.1055613458 * x - 0.0638541728 * y) ** 3;
  const short = (l - 0.0894841775 * x - 1.291485548 * y) ** 3;
  return [
    4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
    -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
    -0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * short,
  ];
}
