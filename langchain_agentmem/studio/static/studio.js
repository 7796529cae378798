// What Studio does in a browser beyond htmx. Every page can be read and used without it.
"use strict";
