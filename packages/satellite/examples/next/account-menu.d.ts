import "react";

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "account-menu": { children?: ReactNode };
    }
  }
}
