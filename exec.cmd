@rem Windows has no exec, which the scripts of package.json need (docs/decisions.md, 304).
@%*
