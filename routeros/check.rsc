# Says whether install.rsc, with the settings in it, would work on this router. Changes nothing.
# Copy both files to the router, then:  /import file-name=check.rsc
:global wattleMode "check"
/import file-name=install.rsc
